//! TLS: servers are verified, always, where it is used at all.

use std::fs;
use std::path::Path;

use mysql_async::{ClientIdentity, SslOpts};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

/// Files that the URL names.
pub(super) struct Papers<'a> {
    /// Whose certificates are trusted: a file, or `system`. `None`: the roots of the web.
    pub(super) authority: Option<&'a str>,
    pub(super) certificate: Option<&'a str>,
    pub(super) key: Option<&'a str>,
}

impl Papers<'_> {
    pub(super) fn are_given(&self) -> bool {
        self.authority.or(self.certificate).or(self.key).is_some()
    }
}

pub(super) fn options(papers: &Papers<'_>) -> Result<SslOpts, String> {
    if CryptoProvider::get_default().is_none() {
        // The client takes the default of the process, and panics without one where several are built in. Another
        // thread may have been faster.
        drop(ring::default_provider().install_default());
    }
    let options = match papers.authority {
        None => SslOpts::default(),
        Some("system") => SslOpts::default()
            .with_disable_built_in_roots(true)
            .with_root_certs(system_roots()?.into_iter().map(Into::into).collect()),
        Some(file) => {
            let roots = vec![read("sslrootcert", file)?.into()];
            SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots)
        }
    };
    match (papers.certificate, papers.key) {
        (None, None) => Ok(options),
        (Some(certificate), Some(key)) => {
            let identity =
                ClientIdentity::new(read("sslcert", certificate)?.into(), read("sslkey", key)?.into());
            Ok(options.with_client_identity(Some(identity)))
        }
        _ => Err("a client certificate needs both `sslcert=` and `sslkey=`".to_owned()),
    }
}

fn system_roots() -> Result<Vec<Vec<u8>>, String> {
    let mut found = rustls_native_certs::load_native_certs().certs;
    // The client would refuse all because of one.
    found.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    if found.is_empty() {
        return Err("`sslrootcert=system`: the system has no root certificates; install them".to_owned());
    }
    Ok(found.iter().map(|certificate| certificate.as_ref().to_vec()).collect())
}

fn read(what: &str, file: &str) -> Result<Vec<u8>, String> {
    let unusable = |why: &dyn std::fmt::Display| format!("`{what}={file}` cannot be used: {why}");
    let text = fs::read(Path::new(file)).map_err(|error| unusable(&error))?;
    if !text.starts_with(b"-----BEGIN") && !text.windows(11).any(|window| window == b"\n-----BEGIN") {
        return Err(unusable(&"it is not in PEM format"));
    }
    Ok(text)
}
