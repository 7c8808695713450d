//! The configuration in a URL.

use std::fmt;
use std::time::Duration;

use distlock_store::StoreError;
use distlock_store::kit::connection::{ConnectionOptions, Provider};
use distlock_store::kit::url::{Host, Login, Parts};

/// The address of the server, the credentials and the time-outs.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) host: Host,
    login: Login,
    credentials: Option<Provider>,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
}

const PORT: u16 = 11_211;
const KNOWN: &[&str] = &["connect_timeout", "response_timeout"];
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
impl Config {
    /// The configuration from a URL and the builder's options, which take precedence. Errors never quote a part that
    /// may be a password.
    pub(super) fn parse(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        if options.has_tls_options() {
            return Err("`tls` is for stores that speak TLS: Memcached is connected without TLS".to_owned());
        }
        let parts = Parts::of(url)?;
        let parameters = parts.parameters(KNOWN, instead)?;
        let mut hosts = parts.hosts(PORT)?;
        let host = hosts.remove(0);
        if !hosts.is_empty() {
            return Err("locks are kept by one Memcached server: name one host. (Several would need a rule that says \
                        which of them has a key, and would forget locks whenever the list changes.)"
                .to_owned());
        }
        if !parts.path.trim_matches('/').is_empty() {
            return Err("the URL of Memcached has no path: `memcached://host:port`".to_owned());
        }
        Ok(Config {
            host,
            login: parts.login()?,
            credentials: options.credentials.clone(),
            connect_timeout: parameters.connect_timeout(options, CONNECT_TIMEOUT)?,
            response_timeout: parameters.response_timeout(options, RESPONSE_TIMEOUT)?,
        })
    }

    /// User and password, if there are any.
    pub(super) async fn login(&self) -> Result<Option<(String, String)>, StoreError> {
        let Login { mut user, mut password } = self.login.clone();
        if let Some(provider) = &self.credentials {
            let given = provider.ask().await;
            let given = given.map_err(|error| StoreError::not_sent(format!("no credentials: {error}")))?;
            user = given.user.or(user);
            password = Some(given.password);
        }
        Ok(user.zip(password))
    }
}

/// The advice for an option that other programs have.
fn instead(name: &str) -> Option<String> {
    let text = match name {
        "timeout" => "write `response_timeout=1s`",
        "tcp_nodelay" => "it is always on",
        "protocol" => "commands are meta commands, always",
        "tls" | "ssl" => "Memcached is connected without TLS: use a tunnel",
        _ => return None,
    };
    Some(text.to_owned())
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.host)
    }
}
