//! TLS: which certificates to trust, and our own certificate.
//!
//! Files are read again for every connection. If their content has changed and is valid, it applies from then
//! on. If it is not valid, the previous content still applies, because files may be replaced one after the
//! other.

#[cfg(feature = "tls")]
pub(super) use with::Tls;
#[cfg(not(feature = "tls"))]
pub(super) use without::Tls;

#[cfg(feature = "tls")]
mod with {
    use std::io;
    use std::sync::Arc;

    use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};

    use crate::backend::redis::config_error::ConfigError;
    use crate::backend::redis::registered::Registered;
    use crate::observe::{Notice, notice};
    use distlock_store::kit::connection::TlsOptions;
    use distlock_store::kit::tls::TlsFiles;

    /// How connections are secured, if they are.
    #[derive(Clone, Debug, Default)]
    pub(in super::super) struct Tls(Option<Secured>);

    #[derive(Clone, Debug)]
    struct Secured {
        files: Arc<TlsFiles>,
        name: Option<ServerName<'static>>,
    }

    impl Tls {
        /// # Errors
        ///
        /// A sentence that says what cannot be used.
        pub(in super::super) fn new(options: TlsOptions) -> Result<Tls, ConfigError> {
            let name = match &options.server_name {
                Some(name) => Some(ServerName::try_from(name.clone()).map_err(|error| {
                    format!("TLS: the server name (`tls_name=`) cannot be used: {error}")
                })?),
                None => None,
            };
            Ok(Tls(Some(Secured { files: Arc::new(TlsFiles::new(options)?), name })))
        }

        /// Makes the TLS handshake with `host` over a connected socket.
        pub(in super::super) async fn wrap(
            &self,
            host: &str,
            stream: Registered,
        ) -> io::Result<TlsStream<Registered>> {
            let Some(Secured { files, name }) = &self.0 else {
                return Err(io::Error::from(io::ErrorKind::Unsupported));
            };
            let name = match name {
                Some(name) => name.clone(),
                None => ServerName::try_from(host.to_owned())
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
            };
            let loaded = files.read().await.unwrap_or_else(|error| {
                notice(Notice::CertificatesNotRead { error: &error });
                files.last()
            });
            TlsConnector::from(loaded.config).connect(name, stream).await
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    /// URLs that need TLS are refused earlier.
    #[derive(Clone, Debug, Default)]
    pub(in super::super) struct Tls;
}
