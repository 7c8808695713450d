//! TLS: servers are verified, always, where it is used at all.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// What encrypts a connection, if its mode says so.
pub(super) type Connector = MakeRustlsConnect;

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

pub(super) fn connector(papers: &Papers<'_>) -> Result<Connector, String> {
    let roots = match papers.authority {
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() },
        Some("system") => system_roots()?,
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("sslrootcert", file)? {
                roots.add(certificate).map_err(|error| unusable("sslrootcert", file, &error))?;
            }
            roots
        }
    };
    // Not the process's default provider, which other crates may set.
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots);
    let config = match (papers.certificate, papers.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let private = PrivateKeyDer::from_pem_slice(&read("sslkey", key)?)
                .map_err(|error| unusable("sslkey", key, &error))?;
            let chain = certificates("sslcert", certificate)?;
            let config = builder.with_client_auth_cert(chain, private);
            config.map_err(|error| unusable("sslcert", certificate, &error))?
        }
        _ => return Err("a client certificate needs both `sslcert=` and `sslkey=`".to_owned()),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if usable == 0 {
        return Err("`sslrootcert=system`: the system has no root certificates; install them".to_owned());
    }
    Ok(roots)
}

fn certificates(what: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(what, file)?).collect();
    match all {
        Ok(all) if all.is_empty() => Err(unusable(what, file, &"no certificate in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(unusable(what, file, &error)),
    }
}

fn read(what: &str, file: &str) -> Result<Vec<u8>, String> {
    fs::read(Path::new(file)).map_err(|error| unusable(what, file, &error))
}

fn unusable(what: &str, file: &str, error: &dyn std::fmt::Display) -> String {
    format!("`{what}={file}` cannot be used: {error}")
}
