//! TLS: whom to trust, and who we are.
//!
//! Without `?ca=..` the root certificates of the web are trusted, with it that authority alone. A certificate of
//! our own (`?cert=..&key=..`) is shown to servers that ask for one.

#[cfg(feature = "tls")]
use std::io;
#[cfg(feature = "tls")]
use std::path::Path;
#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "tls")]
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem, pem::PemObject},
    },
};

/// How connections are secured, if they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls {
    #[cfg(feature = "tls")]
    config: Option<Arc<ClientConfig>>,
}

/// Names of PEM files.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// Certificates of the authorities to trust instead of those of the web.
    pub(super) ca: Option<String>,
    /// Our certificate, and those between it and the authority.
    pub(super) cert: Option<String>,
    /// Its private key.
    pub(super) key: Option<String>,
}

impl Files {
    pub(super) fn are_named(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }
}

#[cfg(feature = "tls")]
impl Tls {
    /// # Errors
    ///
    /// A sentence that says which file cannot be used.
    pub(super) fn new(files: &Files) -> Result<Tls, String> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &files.ca {
            roots = RootCertStore::empty();
            for certificate in certificates("ca", path)? {
                roots.add(certificate).map_err(|error| unusable("ca", path, &error))?;
            }
        }
        // Names its provider of cryptography instead of taking the process's default, which other crates may set.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(roots);
        let config = match (&files.cert, &files.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let private = PrivateKeyDer::from_pem_file(Path::new(key))
                    .map_err(|error| unusable("key", key, &error))?;
                builder
                    .with_client_auth_cert(certificates("cert", cert)?, private)
                    .map_err(|error| unusable("cert", cert, &error))?
            }
            _ => return Err("a client certificate needs both `cert=` and `key=` in the Redis URL".to_owned()),
        };
        Ok(Tls { config: Some(Arc::new(config)) })
    }

    /// Shakes hands with `host` over a connected socket.
    pub(super) async fn wrap(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        TlsConnector::from(Arc::clone(config)).connect(name, stream).await
    }
}

#[cfg(feature = "tls")]
fn certificates(parameter: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, pem::Error> =
        CertificateDer::pem_file_iter(Path::new(path)).and_then(Iterator::collect);
    match all {
        Ok(all) if all.is_empty() => {
            Err(format!("`{parameter}={path}` of the Redis URL: no certificate in it"))
        }
        Ok(all) => Ok(all),
        Err(error) => Err(unusable(parameter, path, &error)),
    }
}

#[cfg(feature = "tls")]
fn unusable(parameter: &str, path: &str, error: &dyn std::fmt::Display) -> String {
    format!("`{parameter}={path}` of the Redis URL cannot be used: {error}")
}

#[cfg(not(feature = "tls"))]
impl Tls {
    /// # Errors
    ///
    /// Never: URLs that need it are refused before.
    pub(super) fn new(_files: &Files) -> Result<Tls, String> {
        Ok(Tls::default())
    }
}
