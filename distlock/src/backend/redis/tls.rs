//! TLS: the trusted certificates, and the client certificate. Without the feature `tls`, no_tls.rs replaces this file.
//!
//! Files are read again for every connection. If their content has changed and is valid, it applies from then
//! on. If it is not valid, the previous content still applies, because files may be replaced one after the
//! other.

use std::io;
use std::sync::Arc;

use tokio_rustls::{TlsConnector, client, rustls::pki_types::ServerName};

use super::registered::Registered;
use super::url::{RedisUrl, Transport};
use crate::observe::{Notice, notice};
use distlock_store::kit::connection::{ConnectionOptions, TlsOptions};
use distlock_store::kit::tls::TlsFiles;

pub(super) type TlsStream = client::TlsStream<Registered>;

/// The socket under the TLS.
pub(super) fn under(stream: &TlsStream) -> &Registered {
    stream.get_ref().0
}

pub(super) fn under_mut(stream: &mut TlsStream) -> &mut Registered {
    stream.get_mut().0
}

/// How connections are secured, if they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls(Option<Secured>);

#[derive(Clone, Debug)]
struct Secured {
    files: Arc<TlsFiles>,
    name: Option<ServerName<'static>>,
}

impl Tls {
    pub(super) fn of(url: &RedisUrl, options: &ConnectionOptions) -> Result<Tls, String> {
        if url.transport != Transport::Tls {
            return match options.tls {
                Some(_) => {
                    Err("`tls` is set, but the URL is one without TLS: write `rediss` for `redis`".into())
                }
                None => Ok(Tls::default()),
            };
        }
        Tls::new(TlsOptions::of_url(|name| url.parameter(name), options.tls.as_ref())?)
    }

    /// # Errors
    ///
    /// A sentence that names the option that cannot be used.
    pub(super) fn new(options: TlsOptions) -> Result<Tls, String> {
        let name = match &options.server_name {
            Some(name) => Some(
                ServerName::try_from(name.clone())
                    .map_err(|error| format!("TLS: the server name (`tls_name=`) cannot be used: {error}"))?,
            ),
            None => None,
        };
        Ok(Tls(Some(Secured { files: Arc::new(TlsFiles::new(options)?), name })))
    }

    /// Makes the TLS handshake with `host` over a connected socket.
    pub(super) async fn wrap(&self, host: &str, stream: Registered) -> io::Result<TlsStream> {
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
