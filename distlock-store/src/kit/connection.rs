//! The options of a connection apart from its address: credentials, trusted certificates, time-outs.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::limits::LATE_COMMANDS;

/// The valid range of the time for one attempt to connect. Shorter ones fail on a machine that is merely busy; longer
/// ones are probably typing errors.
pub const CONNECT_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// The valid range of the silence of a server: after that, the connection is closed, and its commands fail.
pub const RESPONSE_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(4);
const _: () = assert!(RESPONSE_TIMEOUTS.end().as_millis() < LATE_COMMANDS.as_millis());

/// User and password for a server, or a token instead of a password. `Debug` hides the password.
///
/// The function for `LockManagerBuilder::credentials` returns them.
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

    /// The credentials expire after this time, counted from now. After three quarters of it, the function is called
    /// again, and the new credentials are sent on the open connections.
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

/// The function that returns credentials.
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

    /// The credentials of the next connection. A panic of the function is an error: it must not end the store's own
    /// work, which keeps the session alive.
    #[must_use]
    pub fn ask(&self) -> Pin<Box<dyn Future<Output = Given> + Send>> {
        match contained(|| (self.0)()) {
            Ok(mut given) => Box::pin(poll_fn(move |cx| {
                contained(|| given.as_mut().poll(cx))
                    .unwrap_or_else(|panicked| Poll::Ready(Err(panicked.into())))
            })),
            Err(panicked) => Box::pin(ready(Err(panicked.into()))),
        }
    }
}

/// Returns what `work` returns, unless it panics. The panic hook has reported the message.
fn contained<T>(work: impl FnOnce() -> T) -> Result<T, &'static str> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| "it panicked")
}

/// The source of user and password, for a store whose users have both.
#[derive(Clone)]
pub enum UserLogin {
    /// No login.
    None,
    /// The URL contains them.
    Fixed {
        /// The user.
        user: String,
        /// Its password.
        password: String,
    },
    /// The program returns them, for each connection.
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

/// The mapping from announced addresses to reachable ones.
#[derive(Clone)]
pub struct AddressMap(Arc<Mapped>);

impl AddressMap {
    /// `map` converts an announced host and port to a reachable one. `None`: no change.
    pub fn new(map: impl Fn(&str, u16) -> Option<(String, u16)> + Send + Sync + 'static) -> AddressMap {
        AddressMap(Arc::new(map))
    }

    /// The address to connect to.
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

/// A PEM text, or the path of its file.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// Read again whenever a connection is made.
    File(PathBuf),
    /// The text itself.
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

/// The trusted root certificates, if no authority is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots {
    /// The public root certificates in this library.
    Web,
    /// The root certificates of the operating system.
    System,
}

/// The names of [`TlsOptions`] in a URL.
pub const OF_TLS: &[&str] = &["ca", "cert", "key", "tls_name", "roots"];

/// The same of `ca`, `cert` and `key` in URLs of databases, as their other clients call it. `sslrootcert=system` is
/// `roots=system`.
pub const OF_TLS_OF_DATABASES: &[&str] = &["sslrootcert", "sslcert", "sslkey"];

/// How servers are verified, and the client certificate. For URLs with `rediss`, `valkeys` or `etcds`, and for URLs of
/// PostgreSQL and MySQL with an `sslmode` that requests TLS. Needs the feature `tls`, or the feature of the store.
///
/// Servers are always verified. The files are read again for every connection, so that certificates can be replaced
/// while the program runs. If a file is unusable at that moment (for example, a new certificate without its new key), a
/// connection to Redis uses the previous files, and a warning says why. A connection to another store fails and is
/// retried. `Debug` does not show certificates and keys that were given as text.
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
    /// Trusts the public root certificates, and sends no client certificate.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new();
    /// # drop(tls);
    /// ```
    pub fn new() -> Self {
        TlsOptions::default()
    }

    /// Trusts only the authorities in this PEM file. In the URL: `?ca=/path/ca.pem`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().authority_file("/etc/redis/ca.pem");
    /// # drop(tls);
    /// ```
    #[doc(alias("CA", "root certificate"))]
    pub fn authority_file(self, path: impl Into<PathBuf>) -> Self {
        TlsOptions { authority: Some(Pem::File(path.into())), ..self }
    }

    /// Trusts only the authorities in this PEM text.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().authority_pem("-----BEGIN CERTIFICATE-----\n…");
    /// # drop(tls);
    /// ```
    pub fn authority_pem(self, pem: impl AsRef<[u8]>) -> Self {
        TlsOptions { authority: Some(Pem::Text(pem.as_ref().into())), ..self }
    }

    /// Sends the client certificate from this PEM file to servers that request one. The second file has its key. In the
    /// URL: `?cert=/path/cert.pem&key=/path/key.pem`.
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

    /// Sends this client certificate to servers that request one. Certificate and key are PEM texts.
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

    /// Verifies the servers' certificates against this name instead of the host in the URL, and sends it as SNI. For
    /// servers whose address is not in their certificates. In the URL: `?tls_name=redis.internal`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().server_name("redis.internal");
    /// # drop(tls);
    /// ```
    #[doc(alias("SNI"))]
    pub fn server_name(self, name: impl Into<String>) -> Self {
        TlsOptions { server_name: Some(name.into()), ..self }
    }

    /// Trusts the root certificates of the operating system (or of `SSL_CERT_FILE`) instead of the public root
    /// certificates in this crate. In the URL: `?roots=system`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().system_roots();
    /// # drop(tls);
    /// ```
    pub fn system_roots(self) -> Self {
        TlsOptions { roots: Some(Roots::System), ..self }
    }

    /// Trusts the public root certificates in this crate. This is the default. In the URL: `?roots=web`.
    ///
    /// ```
    /// let tls = distlock::TlsOptions::new().web_roots();
    /// # drop(tls);
    /// ```
    pub fn web_roots(self) -> Self {
        TlsOptions { roots: Some(Roots::Web), ..self }
    }

    /// The options from the parameters of a URL and from `over`, which takes precedence.
    ///
    /// # Errors
    ///
    /// A sentence about the unusable option.
    pub fn of_url<'a>(
        parameter: impl Fn(&str) -> Option<&'a str>,
        over: Option<&TlsOptions>,
    ) -> Result<TlsOptions, &'static str> {
        let either = |name, of_databases| match (parameter(name), parameter(of_databases)) {
            (Some(_), Some(_)) => Err(
                "`sslrootcert=`, `sslcert=` and `sslkey=` have the same meaning as `ca=`, `cert=` and `key=`: \
                 keep one",
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

    /// The options of `over`, completed by these.
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

/// The builder's options for connections.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// The source of user and password, if it is not the URL.
    pub credentials: Option<Provider>,
    /// How servers are verified, in addition to the URL.
    pub tls: Option<TlsOptions>,
    /// The manager's default ttl, for stores whose leases live as long as a session.
    pub default_ttl: Duration,
    /// How long an attempt to connect may take.
    pub connect_timeout: Option<Duration>,
    /// How long a reply may take.
    pub response_timeout: Option<Duration>,
    /// The mapping of announced addresses.
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

    #[tokio::test]
    async fn a_function_that_panics_has_failed() {
        use std::panic::resume_unwind;
        let at_once = Provider::new(|| -> std::future::Ready<Result<Credentials, String>> {
            resume_unwind(Box::new("when it is called"))
        });
        let later = Provider::new(async || -> Result<Credentials, String> {
            tokio::task::yield_now().await;
            resume_unwind(Box::new("when it is polled"))
        });
        for provider in [at_once, later] {
            let error = UserLogin::Asked(provider).ask("etcd").await.unwrap_err();
            assert!(error.contains("`credentials` failed: it panicked"), "{error}");
        }
    }
}
