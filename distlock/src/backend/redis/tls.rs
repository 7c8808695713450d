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
    use std::fmt;
    use std::fs;
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    use tokio::task::spawn_blocking;
    use tokio_rustls::{
        TlsConnector,
        client::TlsStream,
        rustls::{
            ClientConfig, RootCertStore,
            crypto::ring,
            pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem, pem::PemObject},
        },
    };

    use crate::backend::redis::config_error::ConfigError;
    use crate::backend::redis::registered::Registered;
    use crate::observe::{Notice, notice};
    use distlock_store::kit::connection::{Pem, Roots, TlsOptions};

    /// How connections are secured, if they are.
    #[derive(Clone, Debug, Default)]
    pub(in super::super) struct Tls(Option<Arc<State>>);

    struct State {
        options: TlsOptions,
        name: Option<ServerName<'static>>,
        current: Mutex<Loaded>,
    }

    /// The configuration in use, and the texts that it was made from.
    #[derive(Clone)]
    struct Loaded {
        texts: Texts,
        config: Arc<ClientConfig>,
    }

    /// The PEM texts that the options name.
    #[derive(Clone, PartialEq, Eq)]
    struct Texts {
        authority: Option<Arc<[u8]>>,
        certificate: Option<Arc<[u8]>>,
        key: Option<Arc<[u8]>>,
    }

    impl Tls {
        /// # Errors
        ///
        /// A sentence that says what cannot be used.
        pub(in super::super) fn new(options: TlsOptions) -> Result<Tls, ConfigError> {
            if options.authority.is_some() && options.roots.is_some() {
                return Err("TLS: an authority (`ca=`) and `roots=` exclude each other".into());
            }
            let name = match &options.server_name {
                Some(name) => Some(ServerName::try_from(name.clone()).map_err(|error| {
                    format!("TLS: the server name (`tls_name=`) cannot be used: {error}")
                })?),
                None => None,
            };
            let texts = Texts::read(&options)?;
            let config = config(&options, &texts)?;
            let current = Mutex::new(Loaded { texts, config });
            Ok(Tls(Some(Arc::new(State { options, name, current }))))
        }

        /// Makes the TLS handshake with `host` over a connected socket.
        pub(in super::super) async fn wrap(
            &self,
            host: &str,
            stream: Registered,
        ) -> io::Result<TlsStream<Registered>> {
            let state = self.0.clone().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
            let name = match &state.name {
                Some(name) => name.clone(),
                None => ServerName::try_from(host.to_owned())
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
            };
            // The files may be on a slow device, and this thread renews leases.
            let config = spawn_blocking(move || state.up_to_date()).await.map_err(io::Error::other)?;
            TlsConnector::from(config).connect(name, stream).await
        }
    }

    impl State {
        /// The configuration to use now.
        fn up_to_date(&self) -> Arc<ClientConfig> {
            let before = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let renewed = Texts::read(&self.options).and_then(|texts| {
                if texts == before.texts {
                    return Ok(None);
                }
                let config = config(&self.options, &texts)?;
                Ok(Some(Loaded { texts, config }))
            });
            match renewed {
                Ok(Some(loaded)) => {
                    let config = Arc::clone(&loaded.config);
                    *self.current.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
                    config
                }
                Ok(None) => before.config,
                Err(error) => {
                    notice(Notice::CertificatesNotRead { error: &error });
                    before.config
                }
            }
        }
    }

    impl fmt::Debug for State {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.options.fmt(f)
        }
    }

    impl Texts {
        fn read(options: &TlsOptions) -> Result<Texts, ConfigError> {
            let read = |what, pem: &Option<Pem>| -> Result<Option<Arc<[u8]>>, ConfigError> {
                match pem {
                    None => Ok(None),
                    Some(Pem::Text(text)) => Ok(Some(Arc::clone(text))),
                    Some(Pem::File(path)) => {
                        let text = fs::read(path).map_err(|error| unusable(what, pem, &error))?;
                        Ok(Some(Arc::from(text)))
                    }
                }
            };
            Ok(Texts {
                authority: read("ca", &options.authority)?,
                certificate: read("cert", &options.certificate)?,
                key: read("key", &options.key)?,
            })
        }
    }

    fn config(options: &TlsOptions, texts: &Texts) -> Result<Arc<ClientConfig>, ConfigError> {
        let roots = match &texts.authority {
            Some(text) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates("ca", &options.authority, text)? {
                    roots.add(certificate).map_err(|error| unusable("ca", &options.authority, &error))?;
                }
                roots
            }
            None if options.roots == Some(Roots::System) => system_roots()?,
            None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        };
        // Names its cryptography provider instead of taking the process's default, which other crates may
        // set.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(roots);
        let config = match (&texts.certificate, &texts.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let private = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| unusable("key", &options.key, &error))?;
                builder
                    .with_client_auth_cert(certificates("cert", &options.certificate, certificate)?, private)
                    .map_err(|error| unusable("cert", &options.certificate, &error))?
            }
            _ => return Err("a client certificate needs both `cert=` and `key=`".into()),
        };
        Ok(Arc::new(config))
    }

    fn system_roots() -> Result<RootCertStore, ConfigError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable > 0 {
            return Ok(roots);
        }
        let reason = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        Err(format!(
            "the root certificates of the system cannot be used ({reason}): install them, name a file with \
             SSL_CERT_FILE, or take those of the web (`roots=web`)"
        )
        .into())
    }

    fn certificates(
        what: &str,
        pem: &Option<Pem>,
        text: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
        let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(text).collect();
        match all {
            Ok(all) if all.is_empty() => Err(unusable(what, pem, &"no certificate in it")),
            Ok(all) => Ok(all),
            Err(error) => Err(unusable(what, pem, &error)),
        }
    }

    fn unusable(what: &str, pem: &Option<Pem>, error: &dyn fmt::Display) -> ConfigError {
        let text = match pem {
            Some(Pem::File(path)) => format!("TLS: `{what}={}` cannot be used: {error}", path.display()),
            _ => format!("TLS: `{what}`, given in memory, cannot be used: {error}"),
        };
        text.into()
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    /// URLs that need TLS are refused earlier.
    #[derive(Clone, Debug, Default)]
    pub(in super::super) struct Tls;
}
