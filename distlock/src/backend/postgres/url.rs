//! What a URL says: which servers, as whom, and what is special to this store.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::schema::Schema;
use super::tls::{self, Papers};
use crate::connection::{ConnectionOptions, Provider};
use crate::nearest::nearest;

/// Where the store is, and how to reach it.
#[derive(Clone, Debug)]
pub(crate) struct PostgresConfig {
    pub(super) server: Server,
    pub(super) listening: Listening,
    pub(super) schema: Schema,
    /// `synchronous_commit` of acquisitions, grants and renewals; `None`: as the server is set.
    pub(super) durability: Option<String>,
    /// How many connections carry commands.
    pub(super) connections: usize,
    pub(super) credentials: Option<Provider>,
    pub(crate) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    /// What connections are called that the URL does not name; set once the client is known.
    pub(super) connection_name: OnceLock<String>,
}

/// Whom to connect to.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) tls: tls::Connector,
}

/// What waiters are told by.
#[derive(Clone, Debug)]
pub(super) enum Listening {
    /// A connection to the same server.
    Here,
    /// A connection to this one, which is the same server without a pooler in front of it.
    At(Box<Server>),
    /// Nothing: they poll.
    Off,
}

/// Parameters that this store understands by itself.
const OURS: &[&str] = &[
    "schema",
    "listen",
    "connections",
    "synchronous_commit",
    "connect_timeout",
    "response_timeout",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
];

/// Those that the client understands.
const CLIENTS: &[&str] = &[
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "host",
    "hostaddr",
    "port",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
    "sslnegotiation",
];

const DURABILITIES: &[&str] = &["on", "off", "local", "remote_write", "remote_apply"];
const MOST_CONNECTIONS: usize = 32;
/// A shorter silence than the limit of a command, which is less than 5 s.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection on which nothing arrives is given up by the kernel after this.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(10);

impl PostgresConfig {
    /// Reads a URL. Errors never repeat what may be a password.
    pub(crate) fn parse(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let parameters = Parameters::of(url)?;
        let server = parameters.server()?;
        let listening = match parameters.get("listen") {
            None | Some("on") => Listening::Here,
            Some("off") => Listening::Off,
            Some(url) => {
                let own = Parameters::of(url).and_then(|own| own.server());
                Listening::At(Box::new(own.map_err(|error| {
                    format!(
                        "`listen=`: {error}; it is `off`, or the percent-encoded URL of the server itself"
                    )
                })?))
            }
        };
        let durability = parameters.get("synchronous_commit").map(|value| match value {
            value if DURABILITIES.contains(&value) => Ok(value.to_owned()),
            _ => Err(format!("`synchronous_commit=` is one of {}", DURABILITIES.join(", "))),
        });
        let connections = parameters.get("connections").map_or(Ok(1), |value| {
            let count = value.parse().ok().filter(|count| (1..=MOST_CONNECTIONS).contains(count));
            count.ok_or_else(|| format!("`connections=` is a number from 1 to {MOST_CONNECTIONS}"))
        });
        let limit = |name, set: Option<Duration>, default| {
            let own = parameters.get(name).map(|text| seconds(name, text)).transpose()?;
            in_limits(name, own.or(set).unwrap_or(default))
        };
        Ok(PostgresConfig {
            server,
            listening,
            schema: Schema::named(parameters.get("schema").unwrap_or("distlock"))?,
            durability: durability.transpose()?,
            connections: connections?,
            credentials: options.credentials.clone(),
            connect_timeout: limit("connect_timeout", options.connect_timeout, CONNECT_TIMEOUT)?,
            response_timeout: limit("response_timeout", options.response_timeout, RESPONSE_TIMEOUT)?,
            connection_name: OnceLock::new(),
        })
    }

    /// What this is and where, without credentials.
    pub(super) fn describe(&self) -> String {
        format!("PostgreSQL at {}, {}", self.server.place(), self.schema)
    }
}

/// A URL, taken apart.
struct Parameters<'a> {
    /// In front of the question mark.
    address: &'a str,
    pairs: Vec<(&'a str, Cow<'a, str>)>,
    /// As they are written, those for the client.
    passed_on: Vec<&'a str>,
}

impl<'a> Parameters<'a> {
    fn of(url: &'a str) -> Result<Self, String> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let scheme = address.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        if !matches!(scheme.as_deref(), Some("postgres" | "postgresql")) {
            return Err("the URL does not begin with `postgres://`".to_owned());
        }
        if !address.contains('@') && query.split('=').next().is_some_and(|name| name.contains('@')) {
            return Err("a `?` in the user or the password has to be written as %3F".to_owned());
        }
        let mut parameters = Parameters { address, pairs: Vec::new(), passed_on: Vec::new() };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| format!("`{}=` is not UTF-8", shown(name)))?;
            if CLIENTS.contains(&name) {
                parameters.passed_on.push(pair);
            } else if !OURS.contains(&name) {
                return Err(unknown(name));
            }
            parameters.pairs.push((name, value));
        }
        Ok(parameters)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| &**value)
    }

    /// The servers, and whether they are spoken to in the clear.
    fn server(&self) -> Result<Server, String> {
        // The client knows these two spellings in lower case only.
        let rest = self.address.split_once("://").map_or("", |(_, rest)| rest);
        let url = format!("postgres://{rest}?{}", self.passed_on.join("&"));
        let mut config: Config = url.parse().map_err(|error| reason(&error))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err("the URL names no host: `postgres://user@host/database`".to_owned());
        }
        let (mode, is_verified) = match self.get("sslmode") {
            None | Some("disable") => (SslMode::Disable, false),
            Some("prefer") => (SslMode::Prefer, true),
            Some("require" | "verify-full") => (SslMode::Require, true),
            Some(_) => return Err("`sslmode=` is disable, prefer, require or verify-full".to_owned()),
        };
        let papers = Papers {
            authority: self.get("sslrootcert"),
            certificate: self.get("sslcert"),
            key: self.get("sslkey"),
        };
        if !is_verified && papers.are_given() {
            return Err("certificates are for `sslmode=require` or `verify-full`".to_owned());
        }
        config.ssl_mode(mode);
        if config.get_application_name().is_none() {
            config.application_name("distlock");
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_USER_TIMEOUT);
        }
        if self.get("keepalives_idle").is_none() {
            config.keepalives_idle(KEEPALIVE);
        }
        Ok(Server { config, tls: tls::connector(&papers)? })
    }
}

impl Server {
    /// Hosts and database.
    fn place(&self) -> String {
        let ports = self.config.get_ports();
        let port = |at: usize| ports.get(at).or(ports.last()).copied().unwrap_or(5432);
        let host = |host: &Host| match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        };
        let hosts = self.config.get_hosts();
        let mut names: Vec<String> = hosts.iter().map(host).collect();
        if names.is_empty() {
            names = self.config.get_hostaddrs().iter().map(ToString::to_string).collect();
        }
        let with_ports = names.iter().enumerate().map(|(at, name)| format!("{name}:{}", port(at)));
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database}", with_ports.collect::<Vec<_>>().join(","))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.place())
    }
}

fn reason(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    format!("the URL is not understood: {}", source.unwrap_or_else(|| error.to_string()))
}

fn unknown(name: &str) -> String {
    let names = OURS.iter().chain(CLIENTS).map(|name| (*name).to_owned());
    match nearest(name, names) {
        Some(near) => format!("`{}` is no parameter: did you mean `{near}`?", shown(name)),
        None => {
            format!("`{}` is no parameter: there are {}", shown(name), [OURS, CLIENTS].concat().join(", "))
        }
    }
}

/// A name that may be a piece of a password is not repeated.
fn shown(name: &str) -> &str {
    let is_word = name.len() <= 30 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word { name } else { "…" }
}

fn seconds(name: &str, text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * unit);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| format!("`{name}=` is a time as `3s` or `500ms`"))
}

fn in_limits(name: &str, time: Duration) -> Result<Duration, String> {
    let most = if name == "response_timeout" { 4 } else { 60 };
    if time < Duration::from_millis(10) || time > Duration::from_secs(most) {
        return Err(format!("`{name}` is from 10 ms to {most} s, not {time:?}"));
    }
    Ok(time)
}
