//! The URL schemes: which store each of them stands for, and how a manager for it is created.

use std::sync::Arc;

use super::builder::Url;
use super::built::Built;
use super::store_slot::{Opened, StoreSlot};
use super::{LockManager, LockManagerBuilder};
use crate::backend::ConnectOn;
#[cfg(feature = "memcached")]
use crate::backend::memcached::MemcachedStore;
#[cfg(feature = "mysql")]
use crate::backend::mysql::{MysqlConfig, MysqlStore};
#[cfg(feature = "postgres")]
use crate::backend::postgres::{PostgresConfig, PostgresStore};
use crate::error::LockError;
use crate::nearest::nearest;
use crate::observe::Observers;

#[cfg(feature = "etcd")]
use crate::backend::etcd::EtcdStore;
#[cfg(feature = "zookeeper")]
use crate::backend::zookeeper::ZooKeeperStore;
#[cfg(feature = "redis")]
use crate::backend::{
    Backend,
    quorum::QuorumBackend,
    redis::{self, ClusterBackend, RedisBackend, RedisConfig},
};

/// Creates a manager from the options, the URL and the name of the process.
type Open = fn(LockManagerBuilder, Url, &Arc<str>, ConnectOn) -> Result<Built, LockError>;

/// What schemes stand for.
struct Scheme {
    /// In lower case.
    names: &'static [&'static str],
    /// The feature of distlock that it needs.
    feature: Option<&'static str>,
    /// `None`: built without that feature.
    open: Option<Open>,
}

/// All schemes. To add a store, add a line.
const SCHEMES: &[Scheme] = &[
    Scheme { names: &["memory"], feature: None, open: Some(open_memory) },
    Scheme { names: REDIS, feature: Some("redis"), open: OPEN_REDIS },
    Scheme { names: REDIS_OVER_TLS, feature: Some("tls"), open: OPEN_REDIS_OVER_TLS },
    Scheme { names: &["etcd", "etcds"], feature: Some("etcd"), open: OPEN_ETCD },
    Scheme { names: &["memcached"], feature: Some("memcached"), open: OPEN_MEMCACHED },
    Scheme { names: &["mysql", "mariadb"], feature: Some("mysql"), open: OPEN_MYSQL },
    Scheme { names: &["zookeeper"], feature: Some("zookeeper"), open: OPEN_ZOOKEEPER },
    Scheme { names: &["postgres", "postgresql"], feature: Some("postgres"), open: OPEN_POSTGRES },
];

const REDIS: &[&str] = &[
    "redis",
    "valkey",
    "unix",
    "redis+unix",
    "valkey+unix",
    "redis+sentinel",
    "valkey+sentinel",
    "redis+cluster",
    "valkey+cluster",
    "redis+quorum",
    "valkey+quorum",
];

const REDIS_OVER_TLS: &[&str] = &[
    "rediss",
    "valkeys",
    "rediss+sentinel",
    "valkeys+sentinel",
    "rediss+cluster",
    "valkeys+cluster",
    "rediss+quorum",
    "valkeys+quorum",
];

#[cfg(feature = "redis")]
const OPEN_REDIS: Option<Open> = Some(open_redis);
#[cfg(not(feature = "redis"))]
const OPEN_REDIS: Option<Open> = None;
#[cfg(feature = "tls")]
const OPEN_REDIS_OVER_TLS: Option<Open> = Some(open_redis);
#[cfg(not(feature = "tls"))]
const OPEN_REDIS_OVER_TLS: Option<Open> = None;
#[cfg(feature = "postgres")]
const OPEN_POSTGRES: Option<Open> = Some(open_postgres);
#[cfg(not(feature = "postgres"))]
const OPEN_POSTGRES: Option<Open> = None;

#[cfg(feature = "mysql")]
const OPEN_MYSQL: Option<Open> = Some(open_mysql);
#[cfg(not(feature = "mysql"))]
const OPEN_MYSQL: Option<Open> = None;

#[cfg(feature = "memcached")]
const OPEN_MEMCACHED: Option<Open> = Some(open_memcached);
#[cfg(not(feature = "memcached"))]
const OPEN_MEMCACHED: Option<Open> = None;

#[cfg(feature = "etcd")]
const OPEN_ETCD: Option<Open> = Some(open_etcd);
#[cfg(not(feature = "etcd"))]
const OPEN_ETCD: Option<Open> = None;

#[cfg(feature = "zookeeper")]
const OPEN_ZOOKEEPER: Option<Open> = Some(open_zookeeper);
#[cfg(not(feature = "zookeeper"))]
const OPEN_ZOOKEEPER: Option<Open> = None;

/// The manager for a URL.
pub(super) fn open(
    builder: LockManagerBuilder,
    url: Url,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    let name = scheme_of(&url.0).ok_or_else(|| {
        LockError::options(format!("the URL has no scheme: it must begin with {}", stores()))
    })?;
    let Some(scheme) = SCHEMES.iter().find(|scheme| scheme.names.contains(&&*name)) else {
        return Err(LockError::options(unknown(&name)));
    };
    match (scheme.open, scheme.feature) {
        (Some(open), _) => open(builder, url, client, connect),
        (None, feature) => Err(LockError::options(switched_off(&name, feature.unwrap_or_default()))),
    }
}

/// The scheme in lower case. `None`: the text has no scheme, but is a host, a path, or empty.
fn scheme_of(url: &str) -> Option<String> {
    let (name, rest) = url.trim().split_once(':')?;
    let name = name.to_ascii_lowercase();
    (rest.starts_with("//") || name == "memory").then_some(name)
}

fn unknown(name: &str) -> String {
    let names = SCHEMES.iter().flat_map(|scheme| scheme.names).map(|name| (*name).to_owned());
    match nearest(name, names) {
        Some(near) => format!("`{name}://` is not a scheme of distlock: did you mean {}?", shown(&near)),
        None => format!("`{name}://` is not a scheme of distlock: expected {}", stores()),
    }
}

fn switched_off(name: &str, feature: &str) -> String {
    format!(
        "`{name}://` needs the feature `{feature}` of distlock: \
         `distlock = {{ version = \"..\", features = [\"{feature}\"] }}`"
    )
}

/// One scheme for each store, on one line: all of them are too many to read.
fn stores() -> String {
    let names: Vec<String> =
        SCHEMES.iter().filter_map(|scheme| scheme.names.first()).map(|name| shown(name)).collect();
    format!(
        "{}. Redis also has `+sentinel`, `+cluster` and `+quorum`, as in `redis+cluster://`; Valkey has the \
         same schemes as Redis",
        names.join(", "),
    )
}

/// The scheme as it is written in a URL.
fn shown(name: &str) -> String {
    if name == "memory" { "`memory:`".to_owned() } else { format!("`{name}://`") }
}

fn open_memory(
    builder: LockManagerBuilder,
    _url: Url,
    client: &Arc<str>,
    _connect: ConnectOn,
) -> Result<Built, LockError> {
    no_replicas(&builder)?;
    let LockManagerBuilder { prefix, defaults, .. } = builder;
    Ok(Built::at_once(LockManager::memory(client.clone(), prefix, defaults, Observers::standard())))
}

fn no_replicas(builder: &LockManagerBuilder) -> Result<(), LockError> {
    match builder.replicas {
        Some(1..) => Err(LockError::options("`replicas` is for Redis: other places have none of its kind")),
        Some(0) | None => Ok(()),
    }
}

#[cfg(feature = "redis")]
fn open_redis(
    builder: LockManagerBuilder,
    url: Url,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    if redis::is_quorum(&url.0) {
        return open_quorum(LockManagerBuilder { quorum: vec![url], ..builder }, client, connect);
    }
    let mut config = RedisConfig::with(&url.0, client, &builder.connection).map_err(LockError::options)?;
    config.prefix = builder.prefix;
    config.connect = connect;
    config.tuning = config.tuning.with_gaps(builder.gap);
    config.replicas = builder.replicas.unwrap_or(config.replicas);
    let (tuning, longest_attempt) = (config.tuning.clone(), config.connect_timeout);
    let backend: Arc<dyn Backend> = if config.is_cluster() {
        ClusterBackend::new(config).map_err(LockError::options)?
    } else {
        RedisBackend::new(config).map_err(LockError::options)?
    };
    let manager = LockManager::start(client.clone(), backend, &tuning, builder.defaults);
    Ok(Built { manager, longest_attempt })
}

#[cfg(feature = "postgres")]
fn open_postgres(
    builder: LockManagerBuilder,
    url: Url,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    no_tls_options(&builder, "the URL of PostgreSQL says it: `sslmode=require&sslrootcert=/path/ca.pem`")?;
    let config = PostgresConfig::parse(&url.0, &builder.connection).map_err(LockError::options)?;
    open_store(StoreSlot::new(PostgresStore::new(config)), builder, client, connect)
}

#[cfg(feature = "mysql")]
fn open_mysql(
    builder: LockManagerBuilder,
    url: Url,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    no_tls_options(&builder, "the URL of MySQL says it: `sslmode=require&sslrootcert=/path/ca.pem`")?;
    let config = MysqlConfig::parse(&url.0, &builder.connection).map_err(LockError::options)?;
    open_store(StoreSlot::new(MysqlStore::new(config)), builder, client, connect)
}

#[cfg(feature = "memcached")]
fn open_memcached(
    builder: LockManagerBuilder,
    url: Url,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    no_tls_options(&builder, "Memcached is spoken to in the clear")?;
    let store = MemcachedStore::new(&url.0, &builder.connection).map_err(LockError::options)?;
    open_store(StoreSlot::new(store), builder, client, connect)
}

/// For stores whose TLS is not that of the builder. `instead`: what holds for them.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "memcached"))]
fn no_tls_options(builder: &LockManagerBuilder, instead: &str) -> Result<(), LockError> {
    if builder.connection.has_tls_options() {
        return Err(LockError::options(format!("`tls` is for Redis and etcd; {instead}")));
    }
    Ok(())
}

/// From one URL that lists the servers, or from one URL for each.
#[cfg(feature = "redis")]
pub(super) fn open_quorum(
    builder: LockManagerBuilder,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    let connection = &builder.connection;
    let configs = match builder.quorum.as_slice() {
        [one] if redis::is_quorum(&one.0) => RedisConfig::of_quorum(&one.0, client, connection),
        each => each.iter().map(|url| RedisConfig::with(&url.0, client, connection)).collect(),
    };
    let mut configs = configs.map_err(LockError::options)?;
    if builder.replicas.unwrap_or(0) > 0 || configs.iter().any(|config| config.replicas > 0) {
        return Err(LockError::options(
            "`replicas` on a quorum: a lock there is safe by being on several masters already",
        ));
    }
    for config in &mut configs {
        config.prefix.clone_from(&builder.prefix);
        config.connect = connect;
    }
    let longest_attempt = configs.iter().map(|config| config.connect_timeout).max().unwrap_or_default();
    let backend = QuorumBackend::new(configs, builder.defaults.ttl).map_err(LockError::options)?;
    let manager = LockManager::start(client.clone(), backend, &QuorumBackend::tuning(), builder.defaults);
    Ok(Built { manager, longest_attempt })
}

#[cfg(not(feature = "redis"))]
pub(super) fn open_quorum(
    _builder: LockManagerBuilder,
    _client: &Arc<str>,
    _connect: ConnectOn,
) -> Result<Built, LockError> {
    Err(LockError::options(switched_off("redis+quorum", "redis")))
}

#[cfg(feature = "etcd")]
fn open_etcd(
    builder: LockManagerBuilder,
    url: Url,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    let store =
        EtcdStore::new(&url.0, &builder.connection, builder.defaults.ttl).map_err(LockError::options)?;
    open_store(StoreSlot::new(store), builder, client, connect)
}

#[cfg(feature = "zookeeper")]
fn open_zookeeper(
    builder: LockManagerBuilder,
    url: Url,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    let store =
        ZooKeeperStore::new(&url.0, &builder.connection, builder.defaults.ttl).map_err(LockError::options)?;
    open_store(StoreSlot::new(store), builder, client, connect)
}

/// The manager of a store that implements the public contract.
pub(super) fn open_store(
    slot: StoreSlot,
    mut builder: LockManagerBuilder,
    client: &Arc<str>,
    connect: ConnectOn,
) -> Result<Built, LockError> {
    no_replicas(&builder)?;
    let Opened { backend, tuning, longest_ttl, longest_attempt } =
        slot.open(client, std::mem::take(&mut builder.prefix), connect)?;
    let default = builder.defaults.ttl;
    if let Some(most) = longest_ttl.filter(|most| default > *most) {
        return Err(LockError::options(format!(
            "the store keeps a lock for {most:?} at most, and the default ttl is {default:?}: \
             set a shorter `default_ttl`"
        )));
    }
    let manager = LockManager::start(client.clone(), backend, &tuning, builder.defaults);
    Ok(Built { manager, longest_attempt })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        LockManager::builder().url(url).connect_lazy().unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_scheme_is_refused_with_the_nearest_or_the_stores() {
        assert!(refusal("memry:").contains("no scheme"), "{}", refusal("memry:"));
        assert!(refusal("memry://").contains("did you mean `memory:`?"), "{}", refusal("memry://"));
        assert!(refusal("redis+clustr://h").contains("`redis+cluster://`"));
        let stores = "`memory:`, `redis://`, `rediss://`, `etcd://`, `memcached://`, `mysql://`, `zookeeper://`, \
                      `postgres://`. Redis also has `+sentinel`, `+cluster` and `+quorum`, as in \
                      `redis+cluster://`; Valkey has the same schemes as Redis";
        let far = refusal("http://h");
        assert!(far.ends_with(&format!("`http://` is not a scheme of distlock: expected {stores}")), "{far}");
        let none = refusal("localhost:6379");
        assert!(none.ends_with(&format!("the URL has no scheme: it must begin with {stores}")), "{none}");
    }

    #[test]
    fn a_scheme_that_is_not_built_names_its_feature() {
        for scheme in SCHEMES {
            // What every build has needs no feature.
            let Some(feature) = scheme.feature else {
                assert!(scheme.open.is_some(), "{:?}", scheme.names);
                continue;
            };
            for name in scheme.names {
                let text = switched_off(name, feature);
                assert!(text.contains(&format!("the feature `{feature}`")), "{text}");
                // Which are built depends on what else is built with this crate.
                let made = LockManager::builder().url(format!("{name}://h h")).connect_lazy();
                let refused = made.is_err_and(|error| error.to_string().contains(&text));
                assert_eq!(refused, scheme.open.is_none(), "{name}");
            }
        }
    }

    #[test]
    fn no_scheme_stands_for_two_things() {
        let mut names: Vec<_> = SCHEMES.iter().flat_map(|scheme| scheme.names).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| **name == name.to_ascii_lowercase()));
    }
}
