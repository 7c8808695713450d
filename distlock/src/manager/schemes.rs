//! The URL schemes: the store of each scheme, and how its manager is created.

use std::sync::Arc;

use distlock_store::LockStore;
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::kit::nearest::nearest;

use super::builder::Url;
use super::built::Built;
use super::store_slot::{Opened, StoreSlot};
use super::{LockManager, LockManagerBuilder};
use crate::backend::ConnectOn;
#[cfg(feature = "redis")]
use crate::backend::{
    Backend,
    quorum::QuorumBackend,
    redis::{self, ClusterBackend, RedisBackend, RedisConfig},
};
use crate::error::LockError;
use crate::observe::Observers;
use distlock_store::kit::sync::Locked;

type OpenStore = dyn Fn(&str, &ConnectionOptions) -> Result<StoreSlot, String> + Send + Sync;

/// How the store of a scheme is opened.
#[derive(Clone)]
enum Opener {
    /// A manager from the options, the URL and the name of the process.
    Manager(fn(LockManagerBuilder, Url, &Arc<str>, ConnectOn) -> Result<Built, LockError>),
    /// A store on the public contract, from its URL and the builder's options.
    Store(Arc<OpenStore>),
}

/// The store of some schemes.
struct Scheme {
    /// In lower case.
    names: &'static [&'static str],
    /// The feature of distlock that it needs.
    feature: Option<&'static str>,
    /// `None`: built without that feature.
    open: fn() -> Option<Opener>,
}

/// A scheme that needs this feature.
macro_rules! scheme {
    ($feature:literal, $names:expr, $open:expr) => {
        Scheme {
            names: $names,
            feature: Some($feature),
            open: || {
                #[cfg(feature = $feature)]
                {
                    Some($open)
                }
                #[cfg(not(feature = $feature))]
                {
                    None
                }
            },
        }
    };
}

/// All schemes that come with this crate. To add a store, add a line.
const SCHEMES: &[Scheme] = &[
    Scheme { names: &["memory"], feature: None, open: || Some(Opener::Manager(open_memory)) },
    scheme!("redis", REDIS, Opener::Manager(open_redis)),
    scheme!("tls", REDIS_OVER_TLS, Opener::Manager(open_redis)),
    scheme!("etcd", &["etcd", "etcds"], store(distlock_etcd::EtcdStore::new)),
    scheme!("memcached", &["memcached"], store(distlock_memcached::MemcachedStore::new)),
    scheme!("mysql", &["mysql", "mariadb"], store(distlock_mysql::MysqlStore::new)),
    scheme!("zookeeper", &["zookeeper"], store(distlock_zookeeper::ZooKeeperStore::new)),
    scheme!("postgres", &["postgres", "postgresql"], store(distlock_postgres::PostgresStore::new)),
    scheme!("sqlite", &["sqlite"], store(distlock_sqlite::SqliteStore::new)),
];

/// Schemes without a host, which may be written without `//`.
const HOSTLESS: &[&str] = &["memory", "sqlite"];

/// The schemes that the program has registered.
static REGISTERED: Locked<Vec<(&'static str, Opener)>> = Locked::new(Vec::new());

fn store<S: LockStore>(
    open: impl Fn(&str, &ConnectionOptions) -> Result<S, String> + Send + Sync + 'static,
) -> Opener {
    Opener::Store(Arc::new(move |url, options| open(url, options).map(StoreSlot::new)))
}

/// Registers your own store for these URL schemes, in this process. After that, [`connect`](LockManager::connect),
/// [`from_env`](LockManager::from_env) and builders accept them.
///
/// `open` gets the URL and the builder's options. Its error is a sentence that says what to write instead.
///
/// ```
/// use distlock::LockManager;
/// use distlock::store::kit::connection::ConnectionOptions;
/// # use distlock::store::*;
/// # #[derive(Debug)] struct MyStore { host: String }
/// # impl LockStore for MyStore {
/// #     fn describe(&self) -> String { format!("my store at {}", self.host) }
/// #     async fn acquire(&self, _: &Acquire) -> Result<AcquireReply, StoreError> {
/// #         Ok(AcquireReply::Acquired { fence: None })
/// #     }
/// #     async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> { Ok(RenewReply::Renewed) }
/// #     async fn release(&self, _: &Release) -> Result<ReleaseReply, StoreError> { Ok(ReleaseReply::Released) }
/// #     async fn inspect(&self, _: &str) -> Result<Option<StoredLock>, StoreError> { Ok(None) }
/// #     async fn force_release(&self, _: &str) -> Result<bool, StoreError> { Ok(false) }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// fn open(url: &str, _options: &ConnectionOptions) -> Result<MyStore, String> {
///     let host = url.strip_prefix("mine://").filter(|host| !host.is_empty());
///     Ok(MyStore { host: host.ok_or("the URL names no host: write `mine://host`")?.to_owned() })
/// }
///
/// distlock::store::register(&["mine"], open)?;
/// let manager = LockManager::connect("mine://db-1").await?;
/// manager.lock("order:42").acquire().await?.release().await
/// # }
/// ```
///
/// # Errors
/// [`LockError::InvalidOptions`] if a scheme is invalid (it must consist of lower-case letters, digits, `+`, `-` and
/// `.`, and begin with a letter) or already registered. In that case, no scheme is registered.
pub fn register<S: LockStore>(
    schemes: &[&'static str],
    open: impl Fn(&str, &ConnectionOptions) -> Result<S, String> + Send + Sync + 'static,
) -> Result<(), LockError> {
    let mut registered = REGISTERED.lock();
    for (index, name) in schemes.iter().enumerate() {
        let is_scheme = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
        if !is_scheme {
            return Err(LockError::options(format!("`{name}` is not a scheme of a URL")));
        }
        let is_taken = SCHEMES.iter().any(|scheme| scheme.names.contains(name))
            || registered.iter().any(|(other, _)| other == name)
            || schemes[..index].contains(name);
        if is_taken {
            return Err(LockError::options(format!("`{name}://` is already the scheme of a store")));
        }
    }
    let open = store(open);
    registered.extend(schemes.iter().map(|name| (*name, open.clone())));
    Ok(())
}

fn registered(name: &str) -> Option<Opener> {
    let registered = REGISTERED.lock();
    registered.iter().find(|(other, _)| *other == name).map(|(_, open)| open.clone())
}

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
    "sharded+redis",
    "sharded+valkey",
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
    "sharded+rediss",
    "sharded+valkeys",
    "rediss+quorum",
    "valkeys+quorum",
];

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
    let open = match SCHEMES.iter().find(|scheme| scheme.names.contains(&&*name)) {
        Some(scheme) => (scheme.open)()
            .ok_or_else(|| LockError::options(switched_off(&name, scheme.feature.unwrap_or_default())))?,
        None => registered(&name).ok_or_else(|| LockError::options(unknown(&name)))?,
    };
    match open {
        Opener::Manager(open) => open(builder, url, client, connect),
        Opener::Store(open) => {
            let options =
                ConnectionOptions { default_ttl: builder.defaults.ttl, ..builder.connection.clone() };
            let slot = open(&url.0, &options).map_err(LockError::options)?;
            open_store(slot, builder, client, connect)
        }
    }
}

/// The scheme in lower case. `None`: the text has no scheme, but is a host, a path, or empty.
fn scheme_of(url: &str) -> Option<String> {
    let (name, rest) = url.trim().split_once(':')?;
    let name = name.to_ascii_lowercase();
    (rest.starts_with("//") || HOSTLESS.contains(&&*name)).then_some(name)
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

/// One scheme for each store, on one line. The list of all schemes would be too long.
fn stores() -> String {
    let names: Vec<String> =
        SCHEMES.iter().filter_map(|scheme| scheme.names.first()).map(|name| shown(name)).collect();
    format!(
        "{}. Redis also has `+sentinel`, `+cluster` and `+quorum`, as in `redis+cluster://`, and \
         `sharded+redis://`; Valkey has the same schemes as Redis",
        names.join(", "),
    )
}

/// The scheme as it is written in a URL.
fn shown(name: &str) -> String {
    if HOSTLESS.contains(&name) { format!("`{name}:`") } else { format!("`{name}://`") }
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
        Some(1..) => Err(LockError::options("`replicas` is for Redis: other stores do not have it")),
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
    let backend: Arc<dyn Backend> = if config.is_spread() {
        ClusterBackend::new(config).map_err(LockError::options)?
    } else {
        RedisBackend::new(config).map_err(LockError::options)?
    };
    let manager = LockManager::start(client.clone(), backend, &tuning, builder.defaults);
    Ok(Built { manager, longest_attempt })
}

/// Opens a quorum from one URL that lists the servers, or from one URL for each server.
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
            "`replicas` on a quorum: there, each lock is already on several masters",
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
    use distlock_store::{
        Acquire, AcquireReply, Release, ReleaseReply, Renew, RenewReply, StoreError, StoredLock,
    };

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
                      `postgres://`, `sqlite:`. Redis also has `+sentinel`, `+cluster` and `+quorum`, as in \
                      `redis+cluster://`, and `sharded+redis://`; Valkey has the same schemes as Redis";
        let far = refusal("http://h");
        assert!(far.ends_with(&format!("`http://` is not a scheme of distlock: expected {stores}")), "{far}");
        let none = refusal("localhost:6379");
        assert!(none.ends_with(&format!("the URL has no scheme: it must begin with {stores}")), "{none}");
    }

    #[test]
    fn a_scheme_that_is_not_built_names_its_feature() {
        for scheme in SCHEMES {
            // A scheme that every build has needs no feature.
            let Some(feature) = scheme.feature else {
                assert!((scheme.open)().is_some(), "{:?}", scheme.names);
                continue;
            };
            for name in scheme.names {
                let text = switched_off(name, feature);
                assert!(text.contains(&format!("the feature `{feature}`")), "{text}");
                // The features of this build decide which schemes are available.
                let made = LockManager::builder().url(format!("{name}://h h")).connect_lazy();
                let refused = made.is_err_and(|error| error.to_string().contains(&text));
                assert_eq!(refused, (scheme.open)().is_none(), "{name}");
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

    /// A store that is never opened: only its schemes are tested here.
    #[derive(Debug)]
    enum Nowhere {}

    impl LockStore for Nowhere {
        fn describe(&self) -> String {
            match *self {}
        }

        async fn acquire(&self, _: &Acquire) -> Result<AcquireReply, StoreError> {
            match *self {}
        }

        async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> {
            match *self {}
        }

        async fn release(&self, _: &Release) -> Result<ReleaseReply, StoreError> {
            match *self {}
        }

        async fn inspect(&self, _: &str) -> Result<Option<StoredLock>, StoreError> {
            match *self {}
        }

        async fn force_release(&self, _: &str) -> Result<bool, StoreError> {
            match *self {}
        }
    }

    fn nothing(_: &str, _: &ConnectionOptions) -> Result<Nowhere, String> {
        Err("the URL names no host: write `nowhere-else://host`".to_owned())
    }

    #[test]
    fn a_scheme_that_a_program_registers_is_reached_by_its_urls_and_stands_for_one_store() {
        for taken in [&["redis"][..], &["memory"], &["of-two", "of-two"], &["Upper"], &["7"], &[""], &["a b"]]
        {
            let refused = register(taken, nothing).unwrap_err().to_string();
            assert!(
                refused.contains("is already the scheme of a store") || refused.contains("is not a scheme"),
                "{refused}"
            );
        }
        // If one scheme is refused, the other ones of the same call are not registered either.
        assert!(register(&["nowhere-at-all", "redis"], nothing).is_err());
        assert!(refusal("nowhere-at-all://h").contains("is not a scheme of distlock"));
        register(&["nowhere-else", "nowhere+else"], nothing).unwrap();
        for name in ["nowhere-else", "nowhere+else"] {
            assert!(refusal(&format!("{name}://")).contains("the URL names no host"), "{name}");
        }
        assert!(register(&["nowhere-else"], nothing).is_err());
    }
}
