//! TLS: whom to trust, and our own certificate. Files are read again for every connection; if one cannot be read then,
//! the connection is not made, and the error says which.

use etcd_client::{Certificate, Identity, TlsOptions as ClientTls};

use super::url::Url;
use distlock_store::kit::connection::{ConnectionOptions, Pem, Roots, TlsOptions};

/// How connections are secured.
#[derive(Clone, Debug)]
pub(super) struct Tls(TlsOptions);

impl Tls {
    /// `None` for a URL without TLS.
    ///
    /// # Errors
    ///
    /// A sentence that says what cannot be used.
    pub(super) fn read(url: &Url, options: &ConnectionOptions) -> Result<Option<Tls>, String> {
        if !url.tls {
            return match options.tls {
                Some(_) => {
                    Err("`tls` is set, but the URL is one without TLS: write `etcds` for `etcd`".into())
                }
                None => Ok(None),
            };
        }
        let options = TlsOptions::of_url(|name| url.parameters.get(name), options.tls.as_ref())?;
        if options.authority.is_some() && options.roots.is_some() {
            return Err("TLS: an authority (`ca=`) and `roots=` exclude each other".into());
        }
        if options.certificate.is_some() != options.key.is_some() {
            return Err("TLS: a certificate (`cert=`) and its key (`key=`) go together".into());
        }
        let tls = Tls(options);
        // What cannot be used now is said now.
        tls.load().map(drop)?;
        Ok(Some(tls))
    }

    /// The options of the client, from what the files hold now. Reads files: not for the I/O thread.
    pub(super) fn load(&self) -> Result<ClientTls, String> {
        let options = &self.0;
        let mut client = ClientTls::new();
        client = match (&options.authority, options.roots) {
            (Some(pem), _) => {
                client.ca_certificate(Certificate::from_pem(contents("the authority (`ca=`)", pem)?))
            }
            (None, Some(Roots::System)) => client.with_native_roots(),
            (None, Some(Roots::Web) | None) => client.with_webpki_roots(),
        };
        if let (Some(certificate), Some(key)) = (&options.certificate, &options.key) {
            let certificate = contents("the certificate (`cert=`)", certificate)?;
            client = client.identity(Identity::from_pem(certificate, contents("the key (`key=`)", key)?));
        }
        if let Some(name) = &options.server_name {
            client = client.domain_name(name.clone());
        }
        Ok(client)
    }
}

fn contents(what: &str, pem: &Pem) -> Result<Vec<u8>, String> {
    let text = match pem {
        Pem::Text(text) => text.to_vec(),
        Pem::File(path) => std::fs::read(path)
            .map_err(|error| format!("TLS: {what} cannot be read from {}: {error}", path.display()))?,
    };
    let is_pem = text.windows(11).any(|line| line == b"-----BEGIN ");
    is_pem.then_some(text).ok_or_else(|| format!("TLS: {what} is not a PEM text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Option<Tls>, String> {
        Tls::read(&Url::read(url).unwrap(), &ConnectionOptions::default())
    }

    #[test]
    fn what_cannot_be_used_is_said_at_once() {
        for (url, remedy) in [
            ("etcds://h?ca=/no/such.pem", "/no/such.pem"),
            ("etcds://h?cert=/no/such.pem", "go together"),
            ("etcds://h?roots=all", "neither `system` nor `web`"),
            ("etcds://h?ca=/no/such.pem&roots=web", "exclude each other"),
        ] {
            let text = read(url).unwrap_err();
            assert!(text.contains(remedy), "{url}: {text}");
        }
        assert!(read("etcd://h").unwrap().is_none() && read("etcds://h").unwrap().is_some());
    }

    #[test]
    fn the_builder_takes_precedence_and_shows_no_key() {
        let tls = TlsOptions::new().authority_pem("s3cret, and no PEM");
        let options = ConnectionOptions { tls: Some(tls), ..ConnectionOptions::default() };
        let text = Tls::read(&Url::read("etcds://h?roots=web").unwrap(), &options).unwrap_err();
        assert!(text.contains("is not a PEM text") && !text.contains("s3cret"), "{text}");
        assert!(Tls::read(&Url::read("etcd://h").unwrap(), &options).unwrap_err().contains("`etcds`"));
    }
}
