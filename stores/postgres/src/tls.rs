//! TLS. If it is used, servers are always verified.

use std::sync::Arc;

use distlock_store::StoreError;
use distlock_store::kit::tls::TlsFiles;
use tokio_postgres::Socket;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Encrypts a connection, if its mode requires it.
#[derive(Clone)]
pub(super) struct Connector {
    client: MakeRustlsConnect,
    /// The name in the server's certificate, if it differs from the host.
    name: Option<String>,
}

/// Reads the certificates again.
pub(super) async fn connector(files: &Arc<TlsFiles>) -> Result<Connector, StoreError> {
    let loaded = files.read().await.map_err(StoreError::not_sent)?;
    let client = MakeRustlsConnect::new((*loaded.config).clone());
    Ok(Connector { client, name: files.server_name().map(str::to_owned) })
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        MakeTlsConnect::<Socket>::make_tls_connect(&mut self.client, self.name.as_deref().unwrap_or(host))
    }
}
