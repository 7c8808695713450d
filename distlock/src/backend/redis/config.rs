//! Where the server is, and how we behave towards it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};

use super::super::Tuning;

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
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

/// Everything a [`RedisBackend`](super::RedisBackend) is made from.
#[derive(Clone, Debug)]
pub(crate) struct RedisConfig {
    pub(super) address: Address,
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
    /// Connect when the first operation is sent instead of at once.
    pub(crate) lazy: bool,
}

const EXPECTED: &str = "expected `redis://[user:password@]host[:port][/db]`, the same with `valkey://`, \
     `rediss://` or `valkeys://`, or `redis+unix:///path?db=0&user=u&pass=p`";

impl RedisConfig {
    /// Reads the address, the login and the database from `url`; everything else has its default.
    ///
    /// # Errors
    ///
    /// A sentence that says what to write instead. It never quotes the URL, which may hold a password.
    pub(crate) fn new(url: &str, client: &str) -> Result<RedisConfig, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!("the URL has no scheme: {EXPECTED}"));
        };
        let tls = match scheme {
            "redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(format!("`{scheme}://` is not a scheme for one Redis server: {EXPECTED}")),
        };
        if tls && !cfg!(feature = "tls") {
            return Err(format!(
                "`{scheme}://` needs the feature `tls` of distlock: \
                 `distlock = {{ version = \"..\", features = [\"tls\"] }}`"
            ));
        }
        if tls && rest.contains("#insecure") {
            return Err(
                "`#insecure` is not supported: an unverified server could hand out any lock".to_owned()
            );
        }
        // TLS is ours (see stream.rs): for the parser it is an ordinary address.
        let plain = if tls { format!("redis://{rest}") } else { url.to_owned() };
        let info = ConnectionInfo::from_str(&plain)
            .map_err(|error| format!("the Redis URL cannot be used ({error}): {EXPECTED}"))?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) if tls => Address::Tls { host: host.clone(), port: *port },
            ConnectionAddr::Tcp(host, port) => Address::Tcp { host: host.clone(), port: *port },
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            _ => return Err(format!("the Redis URL names an address of an unknown kind: {EXPECTED}")),
        };
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        if login.username().is_some() && login.password().is_none() {
            return Err("the Redis URL names a user without a password: \
                 write `redis://user:password@host`, or `redis://:password@host` for the default user"
                .to_owned());
        }
        Ok(RedisConfig {
            address,
            login,
            prefix: String::new(),
            client: client.to_owned(),
            tuning: Tuning::default(),
            op_timeout: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(3),
            lazy: false,
        })
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_address_login_and_database() {
        let config = RedisConfig::new("redis://u:p%40ss@example.org:7000/3", "c").unwrap();
        assert_eq!(config.address, Address::Tcp { host: "example.org".into(), port: 7000 });
        assert_eq!(config.login.username(), Some("u"));
        assert_eq!(config.login.password(), Some("p@ss"));
        assert_eq!(config.login.db(), 3);
        let config = RedisConfig::new("valkey://[::1]", "c").unwrap();
        assert_eq!(config.address.to_string(), "[::1]:6379");
        let config = RedisConfig::new("redis+unix:///run/redis.sock?db=2&user=u&pass=p", "c").unwrap();
        assert_eq!(config.address, Address::Unix("/run/redis.sock".into()));
        assert_eq!((config.login.db(), config.login.password()), (2, Some("p")));
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
    fn a_client_name_that_would_break_tokens_is_refused() {
        for name in ["", "a b", "a\n"] {
            assert!(RedisConfig::new("redis://h", name).unwrap().check().is_err());
        }
        assert!(RedisConfig::new("redis://h", "a:b{c}-7").unwrap().check().is_ok());
    }
}
