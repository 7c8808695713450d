//! The configuration in a URL: servers, credentials, and the options of this store.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::schema::Schema;
use distlock_store::LATE_COMMANDS;
use distlock_store::kit::connection::{
    CONNECT_TIMEOUTS, ConnectionOptions, OF_TLS, OF_TLS_OF_DATABASES, Provider, TlsOptions,
};
use distlock_store::kit::tls::TlsFiles;
use distlock_store::kit::url::{self, Parameters, Parts, in_limits};

/// The servers, the credentials and the options of the store.
#[derive(Clone, Debug)]
pub(crate) struct PostgresConfig {
    pub(super) server: Server,
    pub(super) listening: Listening,
    pub(super) schema: Schema,
    /// `synchronous_commit` for acquisitions, grants and renewals. `None`: the server's setting.
    pub(super) durability: Option<String>,
    /// How many connections carry commands.
    pub(super) connections: usize,
    pub(super) credentials: Option<Provider>,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    /// The name of the connections if the URL has none. It is set as soon as the client is known.
    pub(super) connection_name: OnceLock<String>,
}

/// The server to connect to.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) tls: Arc<TlsFiles>,
}

/// The notifications of waiters.
#[derive(Clone, Debug)]
pub(super) enum Listening {
    /// A connection to the same server.
    Here,
    /// A connection to this address, which is the same server without a pooler.
    At(Box<Server>),
    /// No notifications: waiters poll.
    Off,
}

/// The parameters that this store reads.
const OURS: &[&str] = &[
    "schema",
    "listen",
    "connections",
    "synchronous_commit",
    "connect_timeout",
    "response_timeout",
    "sslmode",
];

/// The parameters that the client reads.
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
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The kernel ends a connection after this time without an acknowledgement.
const TCP_USER_TIMEOUT: Duration = LATE_COMMANDS;
const KEEPALIVE: Duration = Duration::from_secs(10);

impl PostgresConfig {
    /// The configuration from a URL and the builder's options, which take precedence. Errors never quote a part that
    /// may be a password.
    pub(crate) fn parse(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let (server, parameters) = read(url, options)?;
        let listening = match parameters.get("listen") {
            None | Some("on") => Listening::Here,
            Some("off") => Listening::Off,
            Some(url) => {
                let (own, _) = read(url, options).map_err(|error| {
                    format!(
                        "`listen=`: {error}; it is `off`, or the percent-encoded URL of the server itself"
                    )
                })?;
                Listening::At(Box::new(own))
            }
        };
        let durability = parameters.get("synchronous_commit").map(|value| match value {
            value if DURABILITIES.contains(&value) => Ok(value.to_owned()),
            _ => Err(format!("`synchronous_commit=` is one of {}", DURABILITIES.join(", "))),
        });
        let connect = options.connect_timeout.or(connect_timeout(&parameters)?).unwrap_or(CONNECT_TIMEOUT);
        Ok(PostgresConfig {
            server,
            listening,
            schema: Schema::named(parameters.get("schema").unwrap_or("distlock"))?,
            durability: durability.transpose()?,
            connections: parameters.number("connections", 1..=MOST_CONNECTIONS)?.unwrap_or(1),
            credentials: options.credentials.clone(),
            connect_timeout: in_limits("connect_timeout", connect, &CONNECT_TIMEOUTS)?,
            response_timeout: parameters.response_timeout(options, RESPONSE_TIMEOUT)?,
            connection_name: OnceLock::new(),
        })
    }

    /// The kind and the location of the store, without credentials.
    pub(super) fn describe(&self) -> String {
        format!("PostgreSQL at {}, {}", self.server.place(), self.schema)
    }
}

/// The servers in a URL, and its other parameters.
fn read(url: &str, options: &ConnectionOptions) -> Result<(Server, Parameters), String> {
    let parts = Parts::of(url)?;
    if !["postgres", "postgresql"].contains(&&*parts.scheme) {
        return Err("the URL does not begin with `postgres://`".to_owned());
    }
    let parameters = parts.parameters(&[OURS, OF_TLS, OF_TLS_OF_DATABASES, CLIENTS].concat(), |_| None)?;
    let server = server(&parts, &parameters, options)?;
    Ok((server, parameters))
}

/// The servers, and whether their connections use TLS.
fn server(parts: &Parts<'_>, parameters: &Parameters, options: &ConnectionOptions) -> Result<Server, String> {
    let mut config: Config = for_the_client(parts, parameters).parse().map_err(|error| reason(&error))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err("the URL names no host: `postgres://user@host/database`".to_owned());
    }
    let (mode, is_verified) = match parameters.get("sslmode") {
        None | Some("disable") => (SslMode::Disable, false),
        Some("prefer") => (SslMode::Prefer, true),
        Some("require" | "verify-full") => (SslMode::Require, true),
        Some(_) => return Err("`sslmode=` is disable, prefer, require or verify-full".to_owned()),
    };
    let mut of_tls = OF_TLS.iter().chain(OF_TLS_OF_DATABASES);
    if !is_verified && (options.has_tls_options() || of_tls.any(|name| parameters.get(name).is_some())) {
        return Err("certificates are for `sslmode=require` or `verify-full`".to_owned());
    }
    config.ssl_mode(mode);
    if config.get_application_name().is_none() {
        config.application_name("distlock");
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
    }
    if parameters.get("keepalives_idle").is_none() {
        config.keepalives_idle(KEEPALIVE);
    }
    let tls = TlsOptions::of_url(|name| parameters.get(name), options.tls.as_ref())?;
    Ok(Server { config, tls: Arc::new(TlsFiles::new(tls)?) })
}

/// The URL with only the parameters that the client reads.
fn for_the_client(parts: &Parts<'_>, parameters: &Parameters) -> String {
    // The client ends the login at the first `@`, and would take the rest of a password for the host.
    let login = parts.login.map(|login| format!("{}@", login.replace('@', "%40"))).unwrap_or_default();
    let said = CLIENTS.iter().filter_map(|name| Some((name, parameters.get(name)?)));
    let said = said.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    format!("postgres://{login}{}{}?{}", parts.hosts, parts.path, said.collect::<Vec<_>>().join("&"))
}

/// A time with a unit, as everywhere, or a number of seconds, as in other programs that read such URLs.
fn connect_timeout(parameters: &Parameters) -> Result<Option<Duration>, String> {
    match parameters.get("connect_timeout").map(str::parse) {
        Some(Ok(seconds)) => Ok(Some(Duration::from_secs(seconds))),
        _ => parameters.duration("connect_timeout"),
    }
}

impl Server {
    /// Hosts and database.
    fn place(&self) -> String {
        let ports = self.config.get_ports();
        let port = |at: usize| ports.get(at).or(ports.last()).copied().unwrap_or(5432);
        let host = |host: &Host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        };
        let hosts = self.config.get_hosts();
        let mut names: Vec<String> = hosts.iter().map(host).collect();
        if names.is_empty() {
            names = self.config.get_hostaddrs().iter().map(ToString::to_string).collect();
        }
        let with_ports = names.into_iter().enumerate();
        let with_ports = with_ports.map(|(at, name)| url::Host { name, port: port(at) }.to_string());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> PostgresConfig {
        PostgresConfig::parse(url, &ConnectionOptions::default()).unwrap()
    }

    #[test]
    fn a_password_with_an_at_sign_is_the_password_and_no_part_of_the_host() {
        for url in ["postgres://app:p@s3cret@db/shop", "postgres://app:p%40s3cret@db/shop"] {
            let config = parsed(url);
            let of_client = &config.server.config;
            assert_eq!(of_client.get_hosts(), [Host::Tcp("db".to_owned())]);
            assert_eq!(of_client.get_user(), Some("app"));
            assert_eq!(of_client.get_password(), Some(&b"p@s3cret"[..]));
            let shown = format!("{} {:?}", config.describe(), config);
            assert!(config.describe().contains("db:5432/shop") && !shown.contains("s3cret"), "{shown}");
        }
        // The errors of the client quote the host and the port.
        for url in ["postgres://app:p@s3cret:6000x@db:port/shop", "postgres://app:p@s3cret@[db/shop"] {
            let error = PostgresConfig::parse(url, &ConnectionOptions::default()).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
