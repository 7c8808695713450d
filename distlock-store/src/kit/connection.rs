//! What a connection needs besides an address: who we are, whom to trust, how long to wait.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use std::pin::Pin;

use crate::limits::LATE_COMMANDS;

/// The valid range of the time for one attempt to connect. Shorter ones fail on a machine that is merely busy; longer
/// ones are probably typing errors.
pub const CONNECT_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// The valid range of the silence of a server: after that, what it was asked is given up with the connection.
pub const RESPONSE_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(4);
const _: () = assert!(RESPONSE_TIMEOUTS.end().as_millis() < LATE_COMMANDS.as_millis());

/// User and password of a server, or the token that stands for a password. `Debug` hides the password.
///
/// Given by the function that `LockManagerBuilder::credentials` takes.
///
/// ```
/// use distlock::{Credentials, LockManager};
///
/// # fn main() -> Result<(), distlock::LockError> {
/// let manager = LockManager::builder()
///     .url("redis://127.0.0.1/")
///     .credentials(|| async { Ok::<_, std::io::Error>(Credentials::new("app", "token")) })
///     .connect_lazy()?;
/// # Ok(()) }
/// ```
#[doc(alias("password", "user", "IAM", "AUTH"))]
#[derive(Clone)]
pub struct Credentials {
    #[doc(hidden)]
    pub user: Option<String>,
    #[doc(hidden)]
    pub password: String,
    #[doc(hidden)]
    pub valid_for: Option<Duration>,
}

impl Credentials {
    /// A user and its password or token.
    ///
    /// ```
    /// let credentials = distlock::Credentials::new("app", "secret");
    /// assert!(!format!("{credentials:?}").contains("secret"));
    /// ```
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Credentials { user: Some(user.into()), password: password.into(), valid_for: None }
    }

    /// The password of the server's default user.
    ///
    /// ```
    /// let credentials = distlock::Credentials::password("secret");
    /// assert!(!format!("{credentials:?}").contains("secret"));
    /// ```
    #[must_use]
    pub fn password(password: impl Into<String>) -> Self {
        Credentials { user: None, password: password.into(), valid_for: None }
    }

    /// They end after this time, counted from now. Before that (after three quarters of it) the function is
    /// asked again, and what it returns is shown on the connections that are open.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// // A token that ends after 15 minutes: the next one is asked for after 11.
    /// let credentials = distlock::Credentials::new("app", "token").valid_for(Duration::from_secs(900));
    /// # drop(credentials);
    /// ```
    #[must_use]
    pub fn valid_for(self, time: Duration) -> Self {
        Credentials { valid_for: Some(time), ..self }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("valid_for", &self.valid_for)
            .finish_non_exhaustive()
    }
}

type Given = Result<Credentials, Box<dyn Error + Send + Sync>>;

/// The function that gives credentials.
#[derive(Clone)]
pub struct Provider(Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Given> + Send>> + Send + Sync>);

impl Provider {
    /// Calls `provider` for each connection.
    pub fn new<F, Fut, E>(provider: F) -> Provider
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Provider(Arc::new(move || {
            let given = provider();
            Box::pin(async move { given.await.map_err(Into::into) })
        }))
    }

    /// The credentials of the next connection.
    #[must_use]
    pub fn ask(&self) -> Pin<Box<dyn Future<Output = Given> + Send>> {
        (self.0)()
    }
}

/// Where user and password of a store come from whose users have both.
#[derive(Clone)]
pub enum UserLogin {
    /// Nobody is logged in.
    None,
    /// What the URL says.
    Fixed {
        /// The user.
        user: String,
        /// Its password.
        password: String,
    },
    /// The program says it, for each connection.
    Asked(Provider),
}

impl UserLogin {
    /// `written`: in the URL.
    pub fn of(written: Option<(String, String)>, options: &ConnectionOptions) -> Result<Self, String> {
        match (written, &options.credentials) {
            (Some(_), Some(_)) => {
                Err("both the URL and `credentials` give a user: leave it out of the URL".into())
            }
            (Some((user, password)), None) => Ok(UserLogin::Fixed { user, password }),
            (None, Some(provider)) => Ok(UserLogin::Asked(provider.clone())),
            (None, None) => Ok(UserLogin::None),
        }
    }

    /// User and password of the next connection, if there are some. `store`: its name, for messages.
    pub async fn ask(&self, store: &str) -> Result<Option<(String, String)>, String> {
        match self {
            UserLogin::None => Ok(None),
            UserLogin::Fixed { user, password } => Ok(Some((user.clone(), password.clone()))),
            UserLogin::Asked(provider) => {
                let asked = provider.ask().await;
                let Credentials { user, password, .. } =
                    asked.map_err(|error| format!("the function given to `credentials` failed: {error}"))?;
                let user = user.ok_or_else(|| {
                    format!("the function given to `credentials` returned no user, which {store} needs")
                })?;
                Ok(Some((user, password)))
            }
        }
    }
}

impl fmt::Debug for UserLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UserLogin::None => "None",
            UserLogin::Fixed { .. } => "Fixed(..)",
            UserLogin::Asked(_) => "Asked(..)",
        })
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider(..)")
    }
}

type Mapped = dyn Fn(&str, u16) -> Option<(String, u16)> + Send + Sync;

/// Where an announced address is reached instead, if it is not reached as announced.
#[derive(Clone)]
pub struct AddressMap(Arc<Mapped>);

impl AddressMap {
    /// `map`: host and port as they are announced, to those to connect to; `None`: the same.
    pub fn new(map: impl Fn(&str, u16) -> Option<(String, u16)> + Send + Sync + 'static) -> AddressMap {
        AddressMap(Arc::new(map))
    }

    /// Where to connect to instead.
    #[must_use]
    pub fn of(&self, host: &str, port: u16) -> Option<(String, u16)> {
        (self.0)(host, port)
    }
}

impl fmt::Debug for AddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressMap(..)")
    }
}

/// A PEM text, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// Read again whenever a connection is made.
    File(PathBuf),
    /// As it was given.
    Text(Arc<[u8]>),
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => path.fmt(f),
            // It may be a private key.
            Pem::Text(_) => f.write_str("(in memory)"),
        }
    }
}

/// Whose certificates are trusted where no authority is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots {
    /// Those of the web, as they come with this library.
    Web,
    /// Those of the operating system.
    System,
}

/// What [`TlsOptions`] are called in a URL.
pub const OF_TLS: &[&str] = &["ca", "cert", "key", "tls_name", "roots"];

/// The same of `ca`, `cert` and `key` in URLs of databases, as their other clients call it. `sslrootcert=system` is
/// `roots=system`.
pub const OF_TLS_OF_DATABASES: &[&str] = &["sslrootcert", "sslcert", "sslkey"];

/// How servers are verified, and what we show them: for URLs with `rediss`, `valkeys` or `etcds`, and those of
/// PostgreSQL and MySQL whose `sslmode` asks for TLS. Feature `tls`, or that of the store.
///
/// Servers are always verified. Files are read again whenever a connection is made, so that certificates can be
/// replaced while the program runs. If what is there then cannot be used (a certificate that was written before
/// its key, say), a connection to Redis is made with what was there before, and a warning says why; to another store
/// it is not made, and tried again. `Debug` does not show what was given in memory.
///
/// ```no_run
/// use distlock::{LockManager, TlsOptions};
///
/// # fn main() -> Result<(), distlock::LockError> {
/// let tls = TlsOptions::new().system_roots().server_name("redis.internal");
/// let manager = LockManager::builder().url("rediss://10.0.0.7/").tls(tls).connect_lazy()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "options do nothing until a builder has them"]
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    #[doc(hidden)]
    pub authority: Option<Pem>,
    #[doc(hidden)]
    pub certificate: Option<Pem>,
    #[doc(hidden)]
    pub key: Option<Pem>,
    #[doc(hidden)]
    pub server_name: Option<String>,
    #[doc(hidden)]
    pub roots: Option<Roots>,
}

impl TlsOptions {
    /// The root certificates of the web are trusted, and no certificate is shown.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new();
    /// # drop(tls);
    /// ```
    pub fn new() -> Self {
        TlsOptions::default()
    }

    /// Trusts the authorities in this PEM file and no others. In the URL: `?ca=/path/ca.pem`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().authority_file("/etc/redis/ca.pem");
    /// # drop(tls);
    /// ```
    #[doc(alias("CA", "root certificate"))]
    pub fn authority_file(self, path: impl Into<PathBuf>) -> Self {
        TlsOptions { authority: Some(Pem::File(path.into())), ..self }
    }

    /// Trusts the authorities in this PEM text and no others.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().authority_pem("-----BEGIN CERTIFICATE-----\n…");
    /// # drop(tls);
    /// ```
    pub fn authority_pem(self, pem: impl AsRef<[u8]>) -> Self {
        TlsOptions { authority: Some(Pem::Text(pem.as_ref().into())), ..self }
    }

    /// Shows the certificate of this PEM file, with the key of that one, to servers that ask for one. In the URL:
    /// `?cert=/path/cert.pem&key=/path/key.pem`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().client_certificate_files("/etc/app/cert.pem", "/etc/app/key.pem");
    /// # drop(tls);
    /// ```
    #[doc(alias("mTLS"))]
    pub fn client_certificate_files(self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let (certificate, key) = (Some(Pem::File(certificate.into())), Some(Pem::File(key.into())));
        TlsOptions { certificate, key, ..self }
    }

    /// Shows this certificate, with this key, both PEM texts, to servers that ask for one.
    ///
    /// ```
    /// let (certificate, key) = ("-----BEGIN CERTIFICATE-----\n…", "-----BEGIN PRIVATE KEY-----\n…");
    /// let tls = distlock::TlsOptions::new().client_certificate_pem(certificate, key);
    /// assert!(!format!("{tls:?}").contains("PRIVATE"));
    /// ```
    pub fn client_certificate_pem(self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        let text = |pem: &[u8]| Some(Pem::Text(pem.into()));
        TlsOptions { certificate: text(certificate.as_ref()), key: text(key.as_ref()), ..self }
    }

    /// Expects servers to be certified for this name, and asks for it (SNI), instead of for the host that is
    /// connected: for servers that are reached by an address which is not in their certificates. In the URL:
    /// `?tls_name=redis.internal`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().server_name("redis.internal");
    /// # drop(tls);
    /// ```
    #[doc(alias("SNI"))]
    pub fn server_name(self, name: impl Into<String>) -> Self {
        TlsOptions { server_name: Some(name.into()), ..self }
    }

    /// Trusts the root certificates of the operating system (or of `SSL_CERT_FILE`) instead of those of the web
    /// that come with this crate. In the URL: `?roots=system`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().system_roots();
    /// # drop(tls);
    /// ```
    pub fn system_roots(self) -> Self {
        TlsOptions { roots: Some(Roots::System), ..self }
    }

    /// Trusts the root certificates of the web that come with this crate: the default. In the URL: `?roots=web`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().web_roots();
    /// # drop(tls);
    /// ```
    pub fn web_roots(self) -> Self {
        TlsOptions { roots: Some(Roots::Web), ..self }
    }

    /// What the parameters of a URL say, and what `over` says beside it, which takes precedence.
    ///
    /// # Errors
    ///
    /// A sentence that says what cannot be used.
    pub fn of_url<'a>(
        parameter: impl Fn(&str) -> Option<&'a str>,
        over: Option<&TlsOptions>,
    ) -> Result<TlsOptions, &'static str> {
        let either = |name, of_databases| match (parameter(name), parameter(of_databases)) {
            (Some(_), Some(_)) => Err(
                "`sslrootcert=`, `sslcert=` and `sslkey=` are other words for `ca=`, `cert=` and `key=`: keep one",
            ),
            (one, other) => Ok(one.or(other)),
        };
        let file = |path: &str| Pem::File(path.into());
        let (authority, roots) = match (either("ca", "sslrootcert")?, parameter("roots")) {
            (Some("system"), None) if parameter("ca").is_none() => (None, Some(Roots::System)),
            (authority, None) => (authority, None),
            (authority, Some("system")) => (authority, Some(Roots::System)),
            (authority, Some("web")) => (authority, Some(Roots::Web)),
            (_, Some(_)) => return Err("`roots=` in the URL is neither `system` nor `web`"),
        };
        let said = TlsOptions {
            authority: authority.map(file),
            certificate: either("cert", "sslcert")?.map(file),
            key: either("key", "sslkey")?.map(file),
            server_name: parameter("tls_name").map(str::to_owned),
            roots,
        };
        Ok(match over {
            Some(over) => said.overlaid(over),
            None => said,
        })
    }

    /// What `over` says, and what these say where it says nothing.
    pub fn overlaid(self, over: &TlsOptions) -> TlsOptions {
        let over = over.clone();
        // An authority and roots exclude each other, so they are replaced together.
        let (authority, roots) = if over.authority.is_some() || over.roots.is_some() {
            (over.authority, over.roots)
        } else {
            (self.authority, self.roots)
        };
        let (certificate, key) = if over.certificate.is_some() {
            (over.certificate, over.key)
        } else {
            (self.certificate, self.key)
        };
        let server_name = over.server_name.or(self.server_name);
        TlsOptions { authority, certificate, key, server_name, roots }
    }
}

/// What the builder says about connections, beside the URL.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// Who gives user and password, if not the URL.
    pub credentials: Option<Provider>,
    /// How servers are verified, beside what the URL says.
    pub tls: Option<TlsOptions>,
    /// The ttl of the manager's locks, where a request says nothing else: for stores whose leases live as long as a
    /// session.
    pub default_ttl: Duration,
    /// How long an attempt to connect may take.
    pub connect_timeout: Option<Duration>,
    /// How long an answer may take.
    pub response_timeout: Option<Duration>,
    /// Where announced addresses are reached instead.
    pub address_map: Option<AddressMap>,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        ConnectionOptions {
            credentials: None,
            tls: None,
            default_ttl: Duration::from_secs(30),
            connect_timeout: None,
            response_timeout: None,
            address_map: None,
        }
    }
}

impl ConnectionOptions {
    /// For stores without TLS, and URLs that do not ask for it.
    #[must_use]
    pub fn has_tls_options(&self) -> bool {
        self.tls.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_no_secret() {
        let credentials = Credentials::new("u", "s3cret").valid_for(Duration::from_secs(60));
        let text = format!("{credentials:?} {:?}", Credentials::password("s3cret"));
        assert!(!text.contains("s3cret") && text.contains("60s"), "{text}");
    }

    #[test]
    fn debug_output_shows_no_key() {
        let options = TlsOptions::new().client_certificate_pem("c3rt", "s3cret").authority_file("/ca.pem");
        let text = format!("{options:?}");
        assert!(!text.contains("s3cret") && text.contains("/ca.pem"), "{text}");
    }
}
