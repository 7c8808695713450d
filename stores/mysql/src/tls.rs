//! TLS. If it is used, servers are always verified.

use std::sync::Arc;

use distlock_store::StoreError;
use distlock_store::kit::tls::TlsFiles;
use mysql_async::{ClientIdentity, SslOpts};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

/// Reads the certificates again.
pub(super) async fn options(files: &Arc<TlsFiles>) -> Result<SslOpts, StoreError> {
    if CryptoProvider::get_default().is_none() {
        // The client uses the default provider of the process. If several are built in and there is no default, it
        // panics. Another thread may have set the default already.
        drop(ring::default_provider().install_default());
    }
    let loaded = files.read().await.map_err(StoreError::not_sent)?;
    let mut options =
        SslOpts::default().with_danger_tls_hostname_override(files.server_name().map(str::to_owned));
    if let Some(trusted) = &loaded.trusted {
        let trusted = trusted.iter().map(|certificate| certificate.as_ref().to_vec().into()).collect();
        options = options.with_disable_built_in_roots(true).with_root_certs(trusted);
    }
    if let (Some(certificate), Some(key)) = (&loaded.certificate, &loaded.key) {
        let identity = ClientIdentity::new(certificate.to_vec().into(), key.to_vec().into());
        options = options.with_client_identity(Some(identity));
    }
    Ok(options)
}
