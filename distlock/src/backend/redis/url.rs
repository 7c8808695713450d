//! URLs of Redis: the servers of each scheme, and the meaning of the parts.

use super::address::Address;
use distlock_store::kit::connection::OF_TLS;
use distlock_store::kit::nearest::nearest;
use distlock_store::kit::url::{Host, Parameters, Parts, decoded, each_once, split_scheme};

/// The meaning of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    One,
    Sentinel,
    Cluster,
    Shards,
    Quorum,
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Tls,
    Unix,
}

/// Every scheme. `redis` may be written `valkey` in all of them; see [`scheme_of`].
const SCHEMES: [(&str, Kind, Transport); 12] = [
    ("redis", Kind::One, Transport::Tcp),
    ("rediss", Kind::One, Transport::Tls),
    ("unix", Kind::One, Transport::Unix),
    ("redis+unix", Kind::One, Transport::Unix),
    ("redis+sentinel", Kind::Sentinel, Transport::Tcp),
    ("rediss+sentinel", Kind::Sentinel, Transport::Tls),
    ("redis+cluster", Kind::Cluster, Transport::Tcp),
    ("rediss+cluster", Kind::Cluster, Transport::Tls),
    ("sharded+redis", Kind::Shards, Transport::Tcp),
    ("sharded+rediss", Kind::Shards, Transport::Tls),
    ("redis+quorum", Kind::Quorum, Transport::Tcp),
    ("rediss+quorum", Kind::Quorum, Transport::Tls),
];

const LISTED: &str = "`redis://`, `redis+sentinel://`, `redis+cluster://`, `redis+quorum://`, `sharded+redis://`, the \
     same with `valkey`, or with `rediss` and `valkeys` for TLS, `unix:///path`, `redis+unix:///path`, `memory:`";

/// The port of sentinels if the URL names none.
const SENTINEL_PORT: u16 = 26379;
/// The port of servers if the URL names none.
const SERVER_PORT: u16 = 6379;

/// Parameters that every URL may have.
const ALWAYS: [&str; 4] = ["replicas", "connect_timeout", "response_timeout", "protocol"];
/// Parameters of URLs with sentinels.
const OF_SENTINELS: [&str; 2] = ["sentinel_user", "sentinel_pass"];
/// Parameters of URLs with a Unix socket, whose path cannot be followed by a database.
const OF_UNIX: [&str; 3] = ["db", "user", "pass"];

/// A URL in its parts, decoded.
#[derive(Clone)]
pub(super) struct RedisUrl {
    pub(super) kind: Kind,
    pub(super) transport: Transport,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// Each once, unless it is a quorum. At least one, unless it is a Unix socket.
    pub(super) hosts: Vec<Host>,
    /// The path of the Unix socket.
    pub(super) socket: String,
    /// The name of the master that the sentinels watch.
    pub(super) master: String,
    pub(super) database: i64,
    parameters: Parameters,
}

/// Whether the URL names the servers of a quorum.
pub(crate) fn is_quorum(url: &str) -> bool {
    split_scheme(url).and_then(|(scheme, _)| scheme_of(&scheme)).is_some_and(|(kind, _)| kind == Kind::Quorum)
}

fn scheme_of(scheme: &str) -> Option<(Kind, Transport)> {
    let plain = scheme.replacen("valkey", "redis", 1);
    SCHEMES.iter().find(|(name, ..)| *name == plain).map(|(_, kind, transport)| (*kind, *transport))
}

impl RedisUrl {
    /// # Errors
    ///
    /// A sentence that names the remedy.
    pub(super) fn read(url: &str) -> Result<RedisUrl, String> {
        if url.trim_end().ends_with("#insecure") {
            return Err(
                "`#insecure` is not supported: an unverified server could hand out any lock (trust its \
                 authority with `ca=`, or name it with `tls_name=`)"
                    .into(),
            );
        }
        let parts = Parts::of(url)?;
        let scheme = &parts.scheme;
        let (kind, transport) = scheme_of(scheme).ok_or_else(|| unknown_scheme(scheme))?;
        if transport == Transport::Tls && !cfg!(feature = "tls") {
            return Err(format!(
                "`{scheme}://` needs the feature `tls` of distlock: \
                 `distlock = {{ version = \"..\", features = [\"tls\"] }}`"
            ));
        }
        let parameters = parameters(&parts, kind, transport)?;
        let login = parts.login()?;
        let mut read = RedisUrl {
            kind,
            transport,
            user: login.user,
            password: login.password,
            hosts: Vec::new(),
            socket: String::new(),
            master: String::new(),
            database: 0,
            parameters,
        };
        if transport == Transport::Unix {
            read.socket_at(&parts)?
        } else {
            read.servers_at(&parts)?
        }
        if read.user.is_some() && read.password.is_none() {
            return Err("the URL names a user without a password: write `redis://user:password@host`, or \
                 `redis://:password@host` for the default user"
                .into());
        }
        Ok(read)
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name)
    }

    pub(super) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(super) fn addresses(&self) -> Vec<Address> {
        if self.transport == Transport::Unix {
            return vec![Address::Unix(self.socket.clone().into())];
        }
        let address = |host: &Host| {
            let (host, port) = (host.name.clone(), host.port);
            if self.transport == Transport::Tls {
                Address::Tls { host, port }
            } else {
                Address::Tcp { host, port }
            }
        };
        self.hosts.iter().map(address).collect()
    }

    /// A URL for each of the servers of a quorum.
    pub(super) fn each_host(&self) -> impl Iterator<Item = RedisUrl> {
        self.hosts.iter().map(|host| RedisUrl { kind: Kind::One, hosts: vec![host.clone()], ..self.clone() })
    }

    fn socket_at(&mut self, &Parts { hosts, path, .. }: &Parts<'_>) -> Result<(), String> {
        if !hosts.is_empty() || path.len() < 2 {
            return Err(
                "the URL of a socket names its path behind three slashes: `unix:///run/redis.sock`".into()
            );
        }
        self.socket = decoded(path, "the path of the socket")?;
        if let Some(database) = self.parameter("db").map(str::to_owned) {
            self.database = number(&database)?;
        }
        for (name, in_front) in [("user", self.user.is_some()), ("pass", self.password.is_some())] {
            if in_front && self.parameter(name).is_some() {
                return Err(format!(
                    "`{name}=` and the text before `@` have the same meaning: leave one out"
                ));
            }
        }
        let parameter = |name| self.parameter(name).map(str::to_owned);
        let (user, password) = (parameter("user"), parameter("pass"));
        (self.user, self.password) = (self.user.take().or(user), self.password.take().or(password));
        Ok(())
    }

    fn servers_at(&mut self, parts: &Parts<'_>) -> Result<(), String> {
        let port = if self.kind == Kind::Sentinel { SENTINEL_PORT } else { SERVER_PORT };
        if self.kind == Kind::One && parts.hosts.contains(',') {
            return Err(
                "the URL names several hosts: for a cluster write `redis+cluster://`, for sentinels \
                 `redis+sentinel://`, for a quorum `redis+quorum://`, for servers that share the keys \
                 `sharded+redis://`"
                    .into(),
            );
        }
        let hosts = parts.hosts(port)?;
        // A quorum with one server named twice is not a quorum. The quorum store checks this.
        self.hosts = if self.kind == Kind::Quorum { hosts } else { each_once(hosts) };
        let mut path = parts.path.strip_prefix('/').unwrap_or_default().splitn(2, '/');
        if self.kind == Kind::Sentinel {
            self.master = decoded(path.next().unwrap_or_default(), "the name of the master")?;
            if self.master.is_empty() {
                return Err(
                    "the URL does not name the master: write `redis+sentinel://host1,host2/master`, with \
                     the name under which the sentinels watch it"
                        .into(),
                );
            }
        }
        let database = path.next().unwrap_or_default().trim_end_matches('/');
        if !database.is_empty() {
            self.database = number(database)?;
        }
        if self.kind != Kind::Sentinel && path.next().is_some_and(|rest| !rest.is_empty()) {
            return Err("the path of the URL is more than a database: write `redis://host:6379/3`".into());
        }
        if self.kind == Kind::Cluster && self.database != 0 {
            return Err("a cluster has only the database 0: leave the path of the URL out".into());
        }
        Ok(())
    }
}

fn unknown_scheme(scheme: &str) -> String {
    let names =
        SCHEMES.iter().flat_map(|(name, ..)| [(*name).to_owned(), name.replacen("redis", "valkey", 1)]);
    match nearest(scheme, names) {
        Some(name) => format!("`{scheme}://` is not a scheme of distlock: did you mean `{name}://`?"),
        None => format!("`{scheme}://` is not a scheme of distlock: expected {LISTED}"),
    }
}

fn number(database: &str) -> Result<i64, String> {
    database.parse().ok().filter(|number: &i64| *number >= 0).ok_or_else(|| {
        "the database in the URL is not a number: write `redis://host:6379/3`, for a socket \
         `unix:///path?db=3`"
            .into()
    })
}

fn parameters(parts: &Parts<'_>, kind: Kind, transport: Transport) -> Result<Parameters, String> {
    let known: Vec<&'static str> = known(kind, transport).collect();
    let parameters = parts.parameters(&known, |name| instead(name, kind))?;
    if parameters.get("protocol").is_some_and(|value| !["resp2", "resp3", "2", "3"].contains(&value)) {
        return Err("`protocol=` in the URL is neither `resp2` nor `resp3`".into());
    }
    Ok(parameters)
}

fn known(kind: Kind, transport: Transport) -> impl Iterator<Item = &'static str> {
    let tls: &[&str] = if transport == Transport::Tls { OF_TLS } else { &[] };
    let unix: &[&str] = if transport == Transport::Unix { &OF_UNIX } else { &[] };
    let sentinels: &[&str] = if kind == Kind::Sentinel { &OF_SENTINELS } else { &[] };
    ALWAYS.iter().chain(tls).chain(unix).chain(sentinels).copied()
}

/// The advice for a parameter that this URL does not have.
fn instead(name: &str, kind: Kind) -> Option<String> {
    let text = match name.to_ascii_lowercase().as_str() {
        name if OF_TLS.contains(&name) => {
            return Some(format!("`{name}=` is for TLS: write `rediss` for `redis`"));
        }
        name if OF_SENTINELS.contains(&name) => return Some(format!("`{name}=` is for `redis+sentinel://`")),
        "ssl" | "tls" => "for TLS begin the URL with `rediss` instead of `redis`",
        "timeout" | "socket_timeout" | "read_timeout" | "write_timeout" | "command_timeout" => {
            "the time-outs are `connect_timeout` and `response_timeout` (`?response_timeout=1s`)"
        }
        "db" | "database" if kind == Kind::Cluster => "a cluster has only the database 0",
        "db" | "database" => "write the database as the path: `redis://host:6379/3`",
        "user" | "username" | "pass" | "password" | "auth" => {
            "write user and password before the host: `redis://user:password@host`"
        }
        "prefix" | "key_prefix" | "client_name" | "default_ttl" | "ttl" | "default_wait" | "wait"
        | "unavailable_after" | "fairness_gap" => "set it in the program, on `LockManager::builder()`",
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
