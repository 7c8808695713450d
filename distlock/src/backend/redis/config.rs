//! Where the server is, and how we behave towards it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};

use super::super::{Clocks, Tuning};
use super::tls::{Files, Tls};

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

impl Address {
    /// Another server that is reached in the same way.
    pub(super) fn beside(&self, host: &str, port: u16) -> Address {
        let host = host.to_owned();
        match self {
            Address::Tls { .. } => Address::Tls { host, port },
            Address::Tcp { .. } | Address::Unix(_) => Address::Tcp { host, port },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = match self {
            Address::Unix(path) => return write!(f, "{}", path.display()),
            Address::Tcp { host, port } | Address::Tls { host, port } => (host, port),
        };
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Where the server for a key is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is known.
    Fixed(Address),
    /// Whichever the sentinels call the master.
    Sentinel(SentinelPlace),
    /// The nodes of a cluster know; these are asked first.
    Cluster(Vec<Address>),
}

/// Who is asked for the master, and for which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentinelPlace {
    pub(super) sentinels: Vec<Address>,
    /// The name under which the sentinels watch the master.
    pub(super) master: String,
    pub(super) login: Login,
}

/// User and password. (Its `Debug` hides them.)
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl Login {
    pub(super) fn settings(&self) -> RedisConnectionInfo {
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        settings
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(..)")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Fixed(address) => address.fmt(f),
            Place::Sentinel(place) => {
                write!(f, "the master `{}` of the sentinels at ", place.master)?;
                list(f, &place.sentinels)
            }
            Place::Cluster(seeds) => {
                f.write_str("the cluster around ")?;
                list(f, seeds)
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, addresses: &[Address]) -> fmt::Result {
    for (at, address) in addresses.iter().enumerate() {
        write!(f, "{}{address}", if at == 0 { "" } else { ", " })?;
    }
    Ok(())
}

/// Everything a [`RedisBackend`](super::RedisBackend) is made from.
#[derive(Clone, Debug)]
pub(crate) struct RedisConfig {
    pub(super) place: Place,
    pub(super) tls: Tls,
    /// User, password and database. (Its `Debug` hides the password.)
    pub(super) login: RedisConnectionInfo,
    /// Put in front of every key.
    pub(crate) prefix: String,
    /// The part of our tokens and of our push channel that tells this client from every other one.
    pub(crate) client: String,
    pub(crate) tuning: Tuning,
    /// How long an answer may take before the connection counts as broken.
    pub(crate) op_timeout: Duration,
    /// How long one attempt to connect may take, greeting included.
    pub(crate) connect_timeout: Duration,
    /// How often sentinels are asked while all is well.
    pub(super) sentinels_every: Duration,
    /// An acquisition counts once so many replicas have it; zero: at once.
    pub(crate) replicas: u32,
    /// Connect when the first operation is sent instead of at once.
    pub(crate) lazy: bool,
    /// One of several independent servers.
    pub(super) member: bool,
}

const EXPECTED: &str = "expected `redis://[user:password@]host[:port][/db]`, the same with `valkey://`, \
     `rediss://` or `valkeys://`, `redis+unix:///path?db=0&user=u&pass=p`, \
     `redis+cluster://[user:password@]host[:port],host[:port],..`, \
     `redis+quorum://[user:password@]host[:port],host[:port],..[/db]`, or \
     `redis+sentinel://[user:password@]host[:port],host[:port],../master[/db][?sentinel_user=u&sentinel_pass=p]`";

/// Where sentinels listen if the URL does not say.
const SENTINEL_PORT: u16 = 26379;
/// Where servers do.
const SERVER_PORT: u16 = 6379;

/// What a scheme stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    One,
    Sentinel,
    Cluster,
}

/// A URL cut into what is ours and what the client library reads.
struct Url<'a> {
    kind: Kind,
    tls: bool,
    unix: bool,
    /// With the `@`, or empty.
    user_info: &'a str,
    /// Everything between user and path: one host, or several with commas.
    hosts: &'a str,
    /// With the `/`, or empty.
    path: &'a str,
    /// Parameters that are ours, decoded.
    ours: Vec<(&'a str, String)>,
    /// The others, as they are.
    others: Vec<&'a str>,
}

const OURS: [&str; 6] = ["sentinel_user", "sentinel_pass", "ca", "cert", "key", "replicas"];

impl<'a> Url<'a> {
    fn cut(url: &'a str) -> Result<Url<'a>, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!("the URL has no scheme: {EXPECTED}"));
        };
        let (kind, tls) = match scheme {
            "redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix" => (Kind::One, false),
            "rediss" | "valkeys" => (Kind::One, true),
            "redis+sentinel" | "valkey+sentinel" => (Kind::Sentinel, false),
            "rediss+sentinel" | "valkeys+sentinel" => (Kind::Sentinel, true),
            "redis+cluster" | "valkey+cluster" => (Kind::Cluster, false),
            "rediss+cluster" | "valkeys+cluster" => (Kind::Cluster, true),
            _ => return Err(format!("`{scheme}://` is not a scheme of Redis: {EXPECTED}")),
        };
        if tls && !cfg!(feature = "tls") {
            return Err(format!(
                "`{scheme}://` needs the feature `tls` of distlock: \
                 `distlock = {{ version = \"..\", features = [\"tls\"] }}`"
            ));
        }
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        if tls && fragment == "insecure" {
            return Err(
                "`#insecure` is not supported: an unverified server could hand out any lock".to_owned()
            );
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user_info, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((name, value)) if OURS.contains(&name) => ours.push((name, decoded(value)?)),
                _ => others.push(pair),
            }
        }
        Ok(Url { kind, tls, unix: scheme.ends_with("unix"), user_info, hosts, path, ours, others })
    }

    fn our(&self, name: &str) -> Option<String> {
        self.ours.iter().find(|(given, _)| *given == name).map(|(_, value)| value.clone())
    }

    /// The URL of one host, for the client library. TLS is ours (see stream.rs): it gets an ordinary address.
    fn read(&self, host: &str, path: &str) -> Result<ConnectionInfo, String> {
        let scheme = if self.unix { "redis+unix" } else { "redis" };
        let (mark, query) = (if self.others.is_empty() { "" } else { "?" }, self.others.join("&"));
        ConnectionInfo::from_str(&format!("{scheme}://{}{host}{path}{mark}{query}", self.user_info))
            .map_err(|error| format!("the Redis URL cannot be used ({error}): {EXPECTED}"))
    }

    fn address(&self, info: &ConnectionInfo) -> Result<Address, String> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) if self.tls => {
                Ok(Address::Tls { host: host.clone(), port: *port })
            }
            ConnectionAddr::Tcp(host, port) => Ok(Address::Tcp { host: host.clone(), port: *port }),
            ConnectionAddr::Unix(path) => Ok(Address::Unix(path.clone())),
            _ => Err(format!("the Redis URL names an address of an unknown kind: {EXPECTED}")),
        }
    }

    /// Each of several hosts; `port` for those that name none.
    fn addresses(&self, port: u16) -> Result<Vec<Address>, String> {
        let hosts = self.hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        let mut addresses = Vec::new();
        for host in hosts {
            let has_port = host.rfind(':').is_some_and(|colon| !host[colon..].contains(']'));
            let host = if has_port { host.to_owned() } else { format!("{host}:{port}") };
            let address = self.address(&self.read(&host, "")?)?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            Err(format!("the Redis URL names no host: {EXPECTED}"))
        } else {
            Ok(addresses)
        }
    }
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "a parameter of the Redis URL is not UTF-8".to_owned())
}

impl RedisConfig {
    /// Reads the place, the login and the database from `url`; everything else has its default.
    ///
    /// # Errors
    ///
    /// A sentence that says what to write instead. It never quotes the URL, which may hold a password.
    pub(crate) fn new(url: &str, client: &str) -> Result<RedisConfig, String> {
        let url = Url::cut(url)?;
        let (place, info) = match url.kind {
            Kind::One => {
                let info = url.read(url.hosts, url.path)?;
                (Place::Fixed(url.address(&info)?), info)
            }
            Kind::Sentinel => {
                let path = url.path.trim_start_matches('/');
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(format!("the Redis URL does not name the master: {EXPECTED}"));
                }
                let place = SentinelPlace {
                    sentinels: url.addresses(SENTINEL_PORT)?,
                    master: decoded(master)?,
                    login: Login { user: url.our("sentinel_user"), password: url.our("sentinel_pass") },
                };
                (Place::Sentinel(place), url.read("localhost", &format!("/{db}"))?)
            }
            Kind::Cluster => {
                let info = url.read("localhost", "")?;
                if !matches!(url.path, "" | "/") {
                    return Err(format!("a cluster has no databases but the one: {EXPECTED}"));
                }
                (Place::Cluster(url.addresses(SERVER_PORT)?), info)
            }
        };
        let files = Files { ca: url.our("ca"), cert: url.our("cert"), key: url.our("key") };
        if files.are_named() && !url.tls {
            return Err("`ca=`, `cert=` and `key=` in the Redis URL are for TLS: write `rediss` for `redis`"
                .to_owned());
        }
        let tls = if url.tls { Tls::new(&files)? } else { Tls::default() };
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        if login.username().is_some() && login.password().is_none() {
            return Err("the Redis URL names a user without a password: \
                 write `redis://user:password@host`, or `redis://:password@host` for the default user"
                .to_owned());
        }
        let replicas = match url.our("replicas") {
            Some(count) => count.parse().map_err(|_| {
                "`replicas=` in the Redis URL is not a number: write, for example, `?replicas=1`".to_owned()
            })?,
            None => 0,
        };
        Ok(RedisConfig {
            tuning: Tuning {
                // Every node has a clock of its own.
                clocks: if matches!(place, Place::Cluster(_)) { Clocks::Many } else { Clocks::One },
                ..Tuning::default()
            },
            place,
            tls,
            login,
            prefix: String::new(),
            client: client.to_owned(),
            op_timeout: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(3),
            sentinels_every: Duration::from_secs(1),
            replicas,
            lazy: false,
            member: false,
        })
    }

    /// Reads the servers of a quorum from one URL: `redis+quorum://[user:password@]host[:port],..[/db]`, with
    /// what else it says for each of them.
    ///
    /// # Errors
    ///
    /// As [`new`](RedisConfig::new).
    pub(crate) fn of_quorum(url: &str, client: &str) -> Result<Vec<RedisConfig>, String> {
        let Some((scheme, rest)) = url.split_once("+quorum://") else {
            return Err(format!("the URL does not name a quorum: {EXPECTED}"));
        };
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user_info, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        hosts.map(|host| RedisConfig::new(&format!("{scheme}://{user_info}{host}{tail}"), client)).collect()
    }

    /// The same as one of several that must not depend on each other.
    pub(crate) fn into_member(self) -> RedisConfig {
        // Locks are not given away by one server alone: it only tells the first in its queue, always.
        let tuning = Tuning { gap: Duration::from_millis(1), every: Duration::ZERO, ..self.tuning };
        RedisConfig { member: true, tuning, ..self }
    }

    pub(crate) fn is_one_server(&self) -> bool {
        matches!(self.place, Place::Fixed(_))
    }

    /// Where it is, for messages.
    pub(crate) fn at(&self) -> String {
        self.place.to_string()
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.place, Place::Cluster(_))
    }

    /// # Errors
    ///
    /// A sentence that says what to change.
    pub(super) fn check(&self) -> Result<(), String> {
        // Tokens are `dl1:<client>:<number>` and stand between blanks in a push.
        if self.client.is_empty() || self.client.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "the client name {:?} must have at least one character and no white space or control characters",
                self.client
            ));
        }
        if self.op_timeout.is_zero() || self.connect_timeout.is_zero() {
            return Err("the timeouts of the Redis connection must be longer than zero".to_owned());
        }
        if self.replicas > 0 && self.is_cluster() {
            return Err(
                "`replicas` is not available for a cluster: use it with one server or with sentinels"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_address_login_and_database() {
        let config = RedisConfig::new("redis://u:p%40ss@example.org:7000/3", "c").unwrap();
        assert_eq!(config.place, Place::Fixed(Address::Tcp { host: "example.org".into(), port: 7000 }));
        assert_eq!(config.login.username(), Some("u"));
        assert_eq!(config.login.password(), Some("p@ss"));
        assert_eq!(config.login.db(), 3);
        let config = RedisConfig::new("valkey://[::1]", "c").unwrap();
        assert_eq!(config.place.to_string(), "[::1]:6379");
        let config = RedisConfig::new("redis+unix:///run/redis.sock?db=2&user=u&pass=p", "c").unwrap();
        assert_eq!(config.place, Place::Fixed(Address::Unix("/run/redis.sock".into())));
        assert_eq!((config.login.db(), config.login.password()), (2, Some("p")));
    }

    #[test]
    fn a_sentinel_url_names_sentinels_master_database_and_both_logins() {
        let url = "redis+sentinel://u:p@a:1,[::1],c/my%20master/3?sentinel_user=s&sentinel_pass=p%40w";
        let config = RedisConfig::new(url, "c").unwrap();
        assert_eq!((config.login.username(), config.login.password()), (Some("u"), Some("p")));
        assert_eq!(config.login.db(), 3);
        assert_eq!(
            config.place.to_string(),
            "the master `my master` of the sentinels at a:1, [::1]:26379, c:26379"
        );
        let Place::Sentinel(place) = &config.place else { panic!("{:?}", config.place) };
        let login = place.login.settings();
        assert_eq!((login.username(), login.password()), (Some("s"), Some("p@w")));
        assert!(!format!("{config:?}").contains("p@w"));
        assert_eq!(RedisConfig::new("redis+sentinel://h/m", "c").unwrap().login.db(), 0);
        for url in
            ["redis+sentinel://h", "redis+sentinel://h/", "redis+sentinel:///m", "redis+sentinel://h/m/x"]
        {
            assert!(RedisConfig::new(url, "c").unwrap_err().contains("expected `redis://"), "{url}");
        }
    }

    #[test]
    fn a_cluster_url_names_nodes_and_no_database() {
        let config = RedisConfig::new("redis+cluster://u:p@a:1,b/", "c").unwrap();
        assert_eq!(config.place.to_string(), "the cluster around a:1, b:6379");
        assert_eq!(config.login.password(), Some("p"));
        assert!(RedisConfig::new("redis+cluster://a/1", "c").unwrap_err().contains("no databases"));
    }

    #[test]
    fn a_bad_url_is_answered_with_what_to_write_and_without_the_password() {
        for url in
            ["", "localhost", "http://localhost", "redis://:secret@", "redis://:secret@h/x", "redis+foo://h"]
        {
            let error = RedisConfig::new(url, "c").unwrap_err();
            assert!(error.contains("expected `redis://"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(RedisConfig::new("redis://user@h", "c").unwrap_err().contains("without a password"));
        assert!(RedisConfig::new("rediss://h#insecure", "c").is_err());
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_without_the_feature_names_the_feature() {
        assert!(RedisConfig::new("rediss://h", "c").unwrap_err().contains("feature `tls`"));
    }

    #[test]
    fn files_for_tls_need_a_scheme_with_tls() {
        assert!(RedisConfig::new("redis://h?ca=/x", "c").unwrap_err().contains("`rediss`"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        for (query, part) in [
            ("ca=/nowhere/ca.pem", "`ca=/nowhere/ca.pem`"),
            ("cert=/nowhere/c.pem&key=/nowhere/k.pem", "`key=/nowhere/k.pem`"),
            ("cert=/nowhere/c.pem", "both `cert=` and `key=`"),
            ("ca=/dev/null", "no certificate"),
        ] {
            let error = RedisConfig::new(&format!("rediss://h?{query}"), "c").unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn replicas_are_a_number_and_not_for_a_cluster() {
        assert_eq!(RedisConfig::new("redis://h", "c").unwrap().replicas, 0);
        assert_eq!(RedisConfig::new("redis+sentinel://h/m?replicas=2", "c").unwrap().replicas, 2);
        for count in ["", "-1", "two"] {
            let error = RedisConfig::new(&format!("redis://h?replicas={count}"), "c").unwrap_err();
            assert!(error.contains("`?replicas=1`"), "{error}");
        }
        let cluster = RedisConfig::new("redis+cluster://h?replicas=1", "c").unwrap();
        assert!(cluster.check().unwrap_err().contains("not available for a cluster"));
    }

    #[test]
    fn a_client_name_that_would_break_tokens_is_refused() {
        for name in ["", "a b", "a\n"] {
            assert!(RedisConfig::new("redis://h", name).unwrap().check().is_err());
        }
        assert!(RedisConfig::new("redis://h", "a:b{c}-7").unwrap().check().is_ok());
    }
}
