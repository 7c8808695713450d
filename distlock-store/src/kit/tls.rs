//! The TLS files: trusted certificates and the client certificate. They are read again for every connection, so that
//! certificates can be renewed while the process runs.

use std::fmt;
use std::fs;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::connection::{Pem, Roots, TlsOptions};
use crate::kit::sync::Locked;

/// The files that [`TlsOptions`] name, and their content when they were last read.
pub struct TlsFiles {
    options: TlsOptions,
    last: Locked<Loaded>,
}

/// The content of the options' files when they were read: checked, and in the forms that clients take.
#[derive(Clone)]
pub struct Loaded {
    /// PEM: whose certificates are trusted. `None`: those that the options call `roots`.
    pub authority: Option<Arc<[u8]>>,
    /// PEM: our own certificate, which goes with `key`.
    pub certificate: Option<Arc<[u8]>>,
    /// PEM: the key of our own certificate.
    pub key: Option<Arc<[u8]>>,
    /// The certificates that are trusted. `None`: the root certificates of the web.
    pub trusted: Option<Arc<[CertificateDer<'static>]>>,
    /// All of it, for rustls.
    pub config: Arc<ClientConfig>,
}

impl TlsFiles {
    /// Reads the files for the first time. A file that cannot be used is reported at once.
    ///
    /// # Errors
    /// A sentence that says which file cannot be used, and why.
    pub fn new(options: TlsOptions) -> Result<TlsFiles, String> {
        if options.authority.is_some() && options.roots.is_some() {
            return Err("TLS: an authority (`ca=`) and `roots=` exclude each other".to_owned());
        }
        if options.certificate.is_some() != options.key.is_some() {
            return Err("TLS: a client certificate needs both `cert=` and `key=`".to_owned());
        }
        let last = Locked::new(load(&options, None)?);
        Ok(TlsFiles { options, last })
    }

    /// The name in the servers' certificates, if it is not the host.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.options.server_name.as_deref()
    }

    /// The trusted roots, if no authority is named.
    #[must_use]
    pub fn roots(&self) -> Roots {
        self.options.roots.unwrap_or(Roots::Web)
    }

    /// The latest content that could be used.
    #[must_use]
    pub fn last(&self) -> Loaded {
        self.last.lock().clone()
    }

    /// Reads the present content, for the next connection. Files may be on a slow device, so another thread reads them.
    /// If this is dropped, that thread reads them nevertheless.
    ///
    /// # Errors
    /// A sentence that says which file cannot be used, and why: a certificate that was written before its key, say.
    pub async fn read(self: &Arc<Self>) -> Result<Loaded, String> {
        let named = [&self.options.authority, &self.options.certificate, &self.options.key];
        if !named.into_iter().flatten().any(|pem| matches!(pem, Pem::File(_))) {
            return Ok(self.last());
        }
        let files = Arc::clone(self);
        let read = spawn_blocking(move || {
            let loaded = load(&files.options, Some(files.last()))?;
            *files.last.lock() = loaded.clone();
            Ok(loaded)
        });
        read.await.unwrap_or_else(|error| Err(format!("TLS: the files were not read: {error}")))
    }
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").finish_non_exhaustive()
    }
}

/// `last` again, if nothing has changed.
fn load(options: &TlsOptions, last: Option<Loaded>) -> Result<Loaded, String> {
    let authority = read("ca", options.authority.as_ref())?;
    let certificate = read("cert", options.certificate.as_ref())?;
    let key = read("key", options.key.as_ref())?;
    if let Some(last) = last
        && (&last.authority, &last.certificate, &last.key) == (&authority, &certificate, &key)
    {
        return Ok(last);
    }
    let mut roots = RootCertStore::empty();
    let trusted = match &authority {
        Some(text) => {
            let all = certificates("ca", options.authority.as_ref(), text)?;
            for certificate in &all {
                let added = roots.add(certificate.clone());
                added.map_err(|error| unusable("ca", options.authority.as_ref(), &error))?;
            }
            Some(all.into())
        }
        None if options.roots == Some(Roots::System) => {
            let all = of_the_system()?;
            roots.add_parsable_certificates(all.iter().cloned());
            Some(all.into())
        }
        None => {
            roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            None
        }
    };
    // Names its cryptography provider instead of taking the process's default, which other crates may set.
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots);
    let config = match (&certificate, &key) {
        (Some(certificate), Some(key)) => {
            let private = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
                unusable("key", options.key.as_ref(), &fault(&error, "no private key in it"))
            })?;
            let chain = certificates("cert", options.certificate.as_ref(), certificate)?;
            builder
                .with_client_auth_cert(chain, private)
                .map_err(|error| unusable("cert", options.certificate.as_ref(), &error))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Loaded { authority, certificate, key, trusted, config: Arc::new(config) })
}

fn read(what: &str, pem: Option<&Pem>) -> Result<Option<Arc<[u8]>>, String> {
    match pem {
        None => Ok(None),
        Some(Pem::Text(text)) => Ok(Some(Arc::clone(text))),
        Some(Pem::File(path)) => {
            let text = fs::read(path).map_err(|error| unusable(what, pem, &error))?;
            Ok(Some(Arc::from(text)))
        }
    }
}

/// The certificates of the system that can be used: some systems also have unusable ones.
fn of_the_system() -> Result<Vec<CertificateDer<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut usable = found.certs;
    usable.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    if !usable.is_empty() {
        return Ok(usable);
    }
    let reason = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
    Err(format!(
        "the root certificates of the system cannot be used ({reason}): install them, name a file with SSL_CERT_FILE, \
         or use those of the web (`roots=web`)"
    ))
}

fn certificates(what: &str, pem: Option<&Pem>, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match all {
        Ok(all) if all.is_empty() => Err(unusable(what, pem, &"no certificate in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(unusable(what, pem, &fault(&error, "no certificate in it"))),
    }
}

/// What is wrong with a PEM text. The error itself quotes lines of the text, which may be those of a private key.
fn fault(error: &pem::Error, none: &'static str) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } | pem::Error::IllegalSectionStart { .. } => {
            "its BEGIN and its END must be lines of their own (was a line break written as `\\n`?)"
        }
        pem::Error::NoItemsFound => none,
        pem::Error::Base64Decode(_) => "it is not base64",
        _ => "it is not PEM",
    }
}

fn unusable(what: &str, pem: Option<&Pem>, error: &dyn fmt::Display) -> String {
    match pem {
        Some(Pem::File(path)) => format!("TLS: `{what}={}` cannot be used: {error}", path.display()),
        _ => format!("TLS: `{what}`, given in memory, cannot be used: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_said_at_once_and_shows_no_key() {
        let new = TlsOptions::new;
        for (options, reason) in [
            (new().authority_file("/no/such.pem"), "TLS: `ca=/no/such.pem` cannot be used"),
            (new().authority_file("/dev/null"), "no certificate in it"),
            (new().authority_file("/dev/null").system_roots(), "exclude each other"),
            (new().authority_pem("s3cret, and no PEM"), "given in memory"),
            (new().client_certificate_files("/no/cert.pem", "/no/key.pem"), "/no/cert.pem"),
            (new().client_certificate_pem("s3cret", "s3cret"), "`key`, given in memory"),
        ] {
            let text = TlsFiles::new(options).unwrap_err();
            assert!(text.contains(reason) && !text.contains("s3cret"), "{text}");
        }
    }

    /// As from a variable of the environment whose line breaks were escaped.
    #[test]
    fn a_key_on_one_line_is_not_shown() {
        let whole = r"-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----";
        let open = format!(r"{whole}\n");
        for text in [whole, &open, "-----BEGIN PRIVATE KEY-----\ns3cret\n"] {
            let new = TlsOptions::new;
            for options in [new().client_certificate_pem(text, text), new().authority_pem(text)] {
                let error = TlsFiles::new(options).unwrap_err();
                // `s3c` in decimal numbers.
                assert!(!error.contains("s3cret") && !error.contains("115, 51, 99"), "{error}");
                assert!(error.contains("given in memory"), "{error}");
            }
        }
    }
}
