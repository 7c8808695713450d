//! Parses URLs.
//!
//! Nothing in a URL is ignored: a part that is not understood is an error that says what to write instead. No
//! error quotes text that may be part of a password.

use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::address::Address;
use super::config_error::ConfigError;
use crate::nearest::nearest;

/// What a scheme stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    One,
    Sentinel,
    Cluster,
    Quorum,
}

/// What a connection is made over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Tls,
    Unix,
}

/// Every scheme. `redis` may be written `valkey` in all of them; see [`scheme_of`].
const SCHEMES: [(&str, Kind, Transport); 10] = [
    ("redis", Kind::One, Transport::Tcp),
    ("rediss", Kind::One, Transport::Tls),
    ("unix", Kind::One, Transport::Unix),
    ("redis+unix", Kind::One, Transport::Unix),
    ("redis+sentinel", Kind::Sentinel, Transport::Tcp),
    ("rediss+sentinel", Kind::Sentinel, Transport::Tls),
    ("redis+cluster", Kind::Cluster, Transport::Tcp),
    ("rediss+cluster", Kind::Cluster, Transport::Tls),
    ("redis+quorum", Kind::Quorum, Transport::Tcp),
    ("rediss+quorum", Kind::Quorum, Transport::Tls),
];

const LISTED: &str = "`redis://`, `redis+sentinel://`, `redis+cluster://`, `redis+quorum://`, the same with \
     `valkey`, or with `rediss` and `valkeys` for TLS, `unix:///path`, `redis+unix:///path`, `memory:`";

/// The port of sentinels if the URL names none.
const SENTINEL_PORT: u16 = 26379;
/// The port of servers if the URL names none.
const SERVER_PORT: u16 = 6379;

/// Parameters that every URL may have.
const ALWAYS: [&str; 4] = ["replicas", "connect_timeout", "response_timeout", "protocol"];
/// Parameters of URLs with TLS.
const OF_TLS: [&str; 5] = ["ca", "cert", "key", "tls_name", "roots"];
/// Parameters of URLs with sentinels.
const OF_SENTINELS: [&str; 2] = ["sentinel_user", "sentinel_pass"];
/// Parameters of URLs with a Unix socket, whose path cannot be followed by a database.
const OF_UNIX: [&str; 3] = ["db", "user", "pass"];

/// A URL in its parts, decoded.
#[derive(Clone)]
pub(super) struct Url {
    pub(super) kind: Kind,
    pub(super) transport: Transport,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// Hosts and ports, each once. At least one, unless it is a Unix socket.
    pub(super) hosts: Vec<(String, u16)>,
    /// The path of the Unix socket.
    pub(super) socket: String,
    /// The name of the master that the sentinels watch.
    pub(super) master: String,
    pub(super) database: i64,
    parameters: Vec<(String, String)>,
}

/// The scheme in lower case, and the text after its colon. `None` for a text without a colon.
pub(crate) fn split(url: &str) -> Option<(String, &str)> {
    let (scheme, rest) = url.trim().split_once(':')?;
    Some((scheme.to_ascii_lowercase(), rest))
}

/// Whether the URL names the servers of a quorum.
pub(crate) fn is_quorum(url: &str) -> bool {
    split(url).and_then(|(scheme, _)| scheme_of(&scheme)).is_some_and(|(kind, _)| kind == Kind::Quorum)
}

fn scheme_of(scheme: &str) -> Option<(Kind, Transport)> {
    let plain = match scheme.strip_prefix("valkey") {
        Some(rest) => format!("redis{rest}"),
        None => scheme.to_owned(),
    };
    SCHEMES.iter().find(|(name, ..)| *name == plain).map(|(_, kind, transport)| (*kind, *transport))
}

impl Url {
    /// # Errors
    ///
    /// A sentence that says what to write instead.
    pub(super) fn read(url: &str) -> Result<Url, ConfigError> {
        let (scheme, rest) =
            split(url)
                .and_then(|(scheme, rest)| Some((scheme, rest.strip_prefix("//")?)))
                .ok_or_else(|| format!("the URL has no scheme: it must begin with one of {LISTED}"))?;
        let (kind, transport) = scheme_of(&scheme).ok_or_else(|| unknown_scheme(&scheme))?;
        if transport == Transport::Tls && !cfg!(feature = "tls") {
            return Err(format!(
                "`{scheme}://` needs the feature `tls` of distlock: \
                 `distlock = {{ version = \"..\", features = [\"tls\"] }}`"
            )
            .into());
        }
        let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, after)| (rest, Some(after)));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // A password that is not encoded is cut at the first of these characters.
        let behind = [path, query, fragment.unwrap_or_default()];
        if !authority.contains('@')
            && transport != Transport::Unix
            && behind.iter().any(|part| part.contains('@'))
        {
            return Err(
                "the URL has a `/`, `?` or `#` in front of its `@`: write these characters in a user or \
                 password as `%2F`, `%3F`, `%23`"
                    .into(),
            );
        }
        match fragment {
            Some("insecure") => {
                return Err(
                    "`#insecure` is not supported: an unverified server could hand out any lock (trust \
                     its authority with `ca=`, or name it with `tls_name=`)"
                        .into(),
                );
            }
            Some(_) => return Err("a `#` has no meaning in the URL: leave it out".into()),
            None => {}
        }
        let parameters = parameters(query, kind, transport)?;
        let (user, password, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                (text(user, "the user")?, text(password, "the password")?, hosts)
            }
            None => (None, None, authority),
        };
        let mut read = Url {
            kind,
            transport,
            user,
            password,
            hosts: Vec::new(),
            socket: String::new(),
            master: String::new(),
            database: 0,
            parameters,
        };
        if transport == Transport::Unix {
            read.socket_at(hosts, path)?
        } else {
            read.servers_at(hosts, path)?
        }
        if read.user.is_some() && read.password.is_none() {
            return Err("the URL names a user without a password: write `redis://user:password@host`, or \
                 `redis://:password@host` for the default user"
                .into());
        }
        Ok(read)
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is a duration.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, ConfigError> {
        self.parameter(name).map(|value| duration(name, value)).transpose()
    }

    pub(super) fn addresses(&self) -> Vec<Address> {
        if self.transport == Transport::Unix {
            return vec![Address::Unix(self.socket.clone().into())];
        }
        let address = |(host, port): &(String, u16)| {
            let (host, port) = (host.clone(), *port);
            if self.transport == Transport::Tls {
                Address::Tls { host, port }
            } else {
                Address::Tcp { host, port }
            }
        };
        self.hosts.iter().map(address).collect()
    }

    /// A URL for each of the servers of a quorum.
    pub(super) fn each_host(&self) -> impl Iterator<Item = Url> {
        self.hosts.iter().map(|host| Url { kind: Kind::One, hosts: vec![host.clone()], ..self.clone() })
    }

    fn socket_at(&mut self, hosts: &str, path: &str) -> Result<(), ConfigError> {
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
                return Err(
                    format!("`{name}=` and the text in front of `@` say the same: leave one out").into()
                );
            }
        }
        let parameter = |name| self.parameter(name).map(str::to_owned);
        let (user, password) = (parameter("user"), parameter("pass"));
        (self.user, self.password) = (self.user.take().or(user), self.password.take().or(password));
        Ok(())
    }

    fn servers_at(&mut self, hosts: &str, path: &str) -> Result<(), ConfigError> {
        let port = if self.kind == Kind::Sentinel { SENTINEL_PORT } else { SERVER_PORT };
        if self.kind == Kind::One && hosts.contains(',') {
            return Err(
                "the URL names several hosts: for a cluster write `redis+cluster://`, for sentinels \
                 `redis+sentinel://`, for a quorum `redis+quorum://`"
                    .into(),
            );
        }
        for host in hosts.split(',').map(str::trim).filter(|host| !host.is_empty()) {
            let host = host_and_port(host, port)?;
            // A quorum of one server named twice is no quorum: the quorum store checks that.
            if self.kind == Kind::Quorum || !self.hosts.contains(&host) {
                self.hosts.push(host);
            }
        }
        if self.hosts.is_empty() {
            return Err("the URL names no host: write, for example, `redis://localhost:6379/`".into());
        }
        let mut parts = path.strip_prefix('/').unwrap_or_default().splitn(2, '/');
        if self.kind == Kind::Sentinel {
            self.master = decoded(parts.next().unwrap_or_default(), "the name of the master")?;
            if self.master.is_empty() {
                return Err(
                    "the URL does not name the master: write `redis+sentinel://host1,host2/master`, with \
                     the name under which the sentinels watch it"
                        .into(),
                );
            }
        }
        let database = parts.next().unwrap_or_default().trim_end_matches('/');
        if !database.is_empty() {
            self.database = number(database)?;
        }
        if self.kind != Kind::Sentinel && parts.next().is_some_and(|rest| !rest.is_empty()) {
            return Err("the path of the URL is more than a database: write `redis://host:6379/3`".into());
        }
        if self.kind == Kind::Cluster && self.database != 0 {
            return Err("a cluster has no databases but number 0: leave the path of the URL out".into());
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

fn host_and_port(text: &str, default: u16) -> Result<(String, u16), ConfigError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the URL has a `[` without a `]`")?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err("only a `:` and the port may follow the `]` in the URL".into()),
            }
        }
        None if text.matches(':').count() > 1 => {
            return Err("a host of the URL has several colons: write an IPv6 address in brackets, \
                 `redis://[::1]:6379/`, and a password in front of an `@`"
                .into());
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let host = decoded(host, "a host")?;
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(
            "the URL names no host in front of a port: write, for example, `redis://localhost:6379/`".into(),
        );
    }
    match port {
        None | Some("") => Ok((host, default)),
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Ok((host, port)),
            _ => Err("the port in the URL is not a number from 1 to 65535".into()),
        },
    }
}

fn number(database: &str) -> Result<i64, ConfigError> {
    database.parse().ok().filter(|number: &i64| *number >= 0).ok_or_else(|| {
        "the database in the URL is not a number: write `redis://host:6379/3`, for a socket \
         `unix:///path?db=3`"
            .into()
    })
}

/// `None` for an empty text.
fn text(raw: &str, what: &str) -> Result<Option<String>, ConfigError> {
    if raw.is_empty() { Ok(None) } else { decoded(raw, what).map(Some) }
}

fn decoded(raw: &str, what: &str) -> Result<String, ConfigError> {
    let decoded = percent_decode_str(raw).decode_utf8();
    decoded.map(Into::into).map_err(|_| format!("{what} in the URL is not UTF-8").into())
}

fn parameters(query: &str, kind: Kind, transport: Transport) -> Result<Vec<(String, String)>, ConfigError> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        check_name(name, kind, transport)?;
        if found.iter().any(|(other, _)| other == name) {
            return Err(format!("`{name}=` stands in the URL twice").into());
        }
        let value = decoded(value, &format!("`{name}=`"))?;
        if value.is_empty() {
            return Err(format!("`{name}=` in the URL has no value").into());
        }
        if name == "protocol" && !["resp2", "resp3", "2", "3"].contains(&value.as_str()) {
            return Err("`protocol=` in the URL is neither `resp2` nor `resp3`".into());
        }
        found.push((name.to_owned(), value));
    }
    Ok(found)
}

fn known(kind: Kind, transport: Transport) -> impl Iterator<Item = &'static str> {
    let tls: &[&str] = if transport == Transport::Tls { &OF_TLS } else { &[] };
    let unix: &[&str] = if transport == Transport::Unix { &OF_UNIX } else { &[] };
    let sentinels: &[&str] = if kind == Kind::Sentinel { &OF_SENTINELS } else { &[] };
    ALWAYS.iter().chain(tls).chain(unix).chain(sentinels).copied()
}

fn check_name(name: &str, kind: Kind, transport: Transport) -> Result<(), ConfigError> {
    if known(kind, transport).any(|known| known == name) {
        return Ok(());
    }
    // Any other text may be part of a password that was not encoded.
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        return Err("a parameter of the URL has no name: write `name=value`, with `&` in between".into());
    }
    let instead = match name.to_ascii_lowercase().as_str() {
        name if OF_TLS.contains(&name) => format!("`{name}=` is for TLS: write `rediss` for `redis`"),
        name if OF_SENTINELS.contains(&name) => format!("`{name}=` is for `redis+sentinel://`"),
        "ssl" | "tls" => "for TLS begin the URL with `rediss` instead of `redis`".to_owned(),
        name if name.contains("timeout") => {
            "the time-outs are `connect_timeout` and `response_timeout` (`?response_timeout=1s`)".to_owned()
        }
        "db" | "database" if kind == Kind::Cluster => "a cluster has no databases but number 0".to_owned(),
        "db" | "database" => "write the database as the path: `redis://host:6379/3`".to_owned(),
        "user" | "username" | "pass" | "password" | "auth" => {
            "write user and password in front of the host: `redis://user:password@host`".to_owned()
        }
        "prefix" | "key_prefix" | "client_name" | "default_ttl" | "ttl" | "default_wait" | "wait"
        | "unavailable_after" | "fairness_gap" => {
            "set it in the program, on `LockManager::builder()`".to_owned()
        }
        other => match nearest(other, known(kind, transport).map(str::to_owned)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                let all: Vec<_> = known(kind, transport).map(|name| format!("`{name}`")).collect();
                format!("expected one of {}", all.join(", "))
            }
        },
    };
    Err(format!("`{name}` is not a parameter of this URL: {instead}").into())
}

/// A number and a unit, as in the attribute.
fn duration(name: &str, value: &str) -> Result<Duration, ConfigError> {
    let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = value.split_at(digits);
    let millis = match unit.trim() {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let total = millis.and_then(|unit: u64| number.parse::<u64>().ok()?.checked_mul(unit));
    total.map(Duration::from_millis).ok_or_else(|| {
        format!(
            "`{name}=` in the URL is not a duration: write a whole number and a unit, `500ms`, `3s`, `1m`"
        )
        .into()
    })
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
