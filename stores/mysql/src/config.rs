//! The configuration in a URL: servers, credentials, and the options of this store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::{Opts, OptsBuilder};

use super::schema::Schema;
use super::tls;
use distlock_store::StoreError;
use distlock_store::kit::connection::{ConnectionOptions, OF_TLS, OF_TLS_OF_DATABASES, Provider, TlsOptions};
use distlock_store::kit::tls::TlsFiles;
use distlock_store::kit::url::{Parts, decoded, each_once};

/// The servers, the credentials and the options of the store.
#[derive(Clone)]
pub(crate) struct MysqlConfig {
    /// At least one.
    pub(super) servers: Vec<Opts>,
    /// Hosts and database, without credentials.
    place: String,
    /// `None`: they are connected without TLS.
    tls: Option<Arc<TlsFiles>>,
    pub(super) schema: Schema,
    /// The maximum number of connections.
    pub(super) connections: usize,
    credentials: Option<Provider>,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
}

const KNOWN: &[&str] =
    &["table_prefix", "connections", "connect_timeout", "response_timeout", "socket", "sslmode"];

const PORT: u16 = 3306;
const CONNECTIONS: usize = 8;
const MOST_CONNECTIONS: usize = 64;
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const KEEPALIVE: Duration = Duration::from_secs(10);
/// The maximum length of a statement and of a reply.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Idle connections are checked regularly, so the server's own limit does not have to be read.
const WAIT_TIMEOUT: usize = 28_800;

impl MysqlConfig {
    /// The configuration from a URL and the builder's options, which take precedence. Errors never quote a part that
    /// may be a password.
    pub(crate) fn parse(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let parts = Parts::of(url)?;
        let parameters = parts.parameters(&[KNOWN, OF_TLS, OF_TLS_OF_DATABASES].concat(), instead)?;
        let (login, hosts) = (parts.login()?, each_once(parts.hosts(PORT)?));
        let database = decoded(parts.path.trim_matches('/'), "the database")?;
        if database.is_empty() || database.contains('/') {
            return Err(format!(
                "the URL names no database: `{}://user:password@host/database`",
                parts.scheme
            ));
        }
        let mut of_tls = OF_TLS.iter().chain(OF_TLS_OF_DATABASES);
        let tls = match parameters.get("sslmode") {
            None | Some("disable")
                if options.has_tls_options() || of_tls.any(|name| parameters.get(name).is_some()) =>
            {
                return Err("certificates are for `sslmode=require` or `verify-full`".to_owned());
            }
            None | Some("disable") => None,
            Some("require" | "verify-full") => {
                let options = TlsOptions::of_url(|name| parameters.get(name), options.tls.as_ref())?;
                Some(Arc::new(TlsFiles::new(options)?))
            }
            Some(_) => return Err("`sslmode=` is disable, require or verify-full".to_owned()),
        };
        let opts = OptsBuilder::default()
            .user(login.user)
            .pass(login.password)
            .db_name(Some(&*database))
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE))
            // Otherwise the client would bypass a proxy or a tunnel if the server is on this machine.
            .prefer_socket(false)
            .socket(parameters.get("socket"))
            // A row that already has the new values counts as affected.
            .client_found_rows(true)
            .max_allowed_packet(Some(MOST_BYTES))
            .wait_timeout(Some(WAIT_TIMEOUT));
        let server = |host: &distlock_store::kit::url::Host| {
            Opts::from(opts.clone().ip_or_hostname(host.name.as_str()).tcp_port(host.port))
        };
        let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let place = parameters.get("socket").map_or(names.join(","), str::to_owned);
        Ok(MysqlConfig {
            servers: hosts.iter().map(server).collect(),
            place: format!("{place}/{database}"),
            tls,
            schema: Schema::with_prefix(parameters.get("table_prefix").unwrap_or("distlock_"))?,
            connections: parameters.number("connections", 1..=MOST_CONNECTIONS)?.unwrap_or(CONNECTIONS),
            credentials: options.credentials.clone(),
            connect_timeout: parameters.connect_timeout(options, CONNECT_TIMEOUT)?,
            response_timeout: parameters.response_timeout(options, RESPONSE_TIMEOUT)?,
        })
    }

    /// The kind and the location of the store, without credentials.
    pub(super) fn describe(&self) -> String {
        format!("MySQL at {}, {}", self.place, self.schema)
    }

    /// The options for a new connection. The credentials of the program, if there are any, and the certificates are
    /// read again.
    pub(super) async fn for_a_connection(&self, server: &Opts) -> Result<Opts, StoreError> {
        let mut opts = OptsBuilder::from_opts(server.clone());
        if let Some(provider) = &self.credentials {
            let given = provider.ask().await;
            let given = given.map_err(|error| StoreError::not_sent(format!("no credentials: {error}")))?;
            let user = given.user.or_else(|| server.user().map(str::to_owned));
            opts = opts.user(user).pass(Some(given.password));
        }
        if let Some(files) = &self.tls {
            opts = opts.ssl_opts(tls::options(files).await?);
        }
        Ok(opts.into())
    }

    /// The maximum time for one attempt to connect, in which every server is tried.
    pub(super) fn longest_attempt(&self) -> Duration {
        self.connect_timeout * u32::try_from(self.servers.len() + 1).unwrap_or(u32::MAX)
    }
}

/// The advice for an option that other programs have.
fn instead(name: &str) -> Option<String> {
    let text = match name {
        "ssl-mode" | "ssl_mode" | "require_ssl" | "ssl" | "tls" => {
            "`sslmode=require` requests TLS; the server is always verified"
        }
        "pool_max" | "pool_min" | "pool_size" | "max_connections" => "write `connections=8`",
        "db" | "database" => "write the database as the path: `mysql://user:password@host/database`",
        "table" | "tables" => "tables are named by `table_prefix=`",
        _ => return None,
    };
    Some(text.to_owned())
}

impl fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}
