//! TLS, with the root certificates of the web.

use std::io;
use std::sync::{Arc, LazyLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

/// Names its provider of cryptography instead of taking the process's default, which other crates may set.
static CONFIG: LazyLock<Result<Arc<ClientConfig>, Error>> = LazyLock::new(|| {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
});

/// Shakes hands with `host` over a connected socket.
pub(super) async fn wrap(host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let config = CONFIG.as_ref().map_err(|error| io::Error::other(error.clone()))?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}
