//! TLS: trusted certificates and the client certificate. The files are read again for every connection. If a file
//! cannot be read, the connection fails, and the error names the file.

use std::sync::Arc;

use etcd_client::{Certificate, Identity, TlsOptions as ClientTls};

use super::url::Url;
use distlock_store::kit::connection::{ConnectionOptions, Roots, TlsOptions};
use distlock_store::kit::tls::TlsFiles;

/// `None` for a URL without TLS.
///
/// # Errors
///
/// A sentence that names the option that cannot be used.
pub(super) fn files(url: &Url, options: &ConnectionOptions) -> Result<Option<Arc<TlsFiles>>, String> {
    if !url.tls {
        return match options.tls {
            Some(_) => Err("`tls` is set, but the URL is one without TLS: write `etcds` for `etcd`".into()),
            None => Ok(None),
        };
    }
    let options = TlsOptions::of_url(|name| url.parameters.get(name), options.tls.as_ref())?;
    Ok(Some(Arc::new(TlsFiles::new(options)?)))
}

/// The options of the client, from the present content of the files.
pub(super) async fn options(files: &Arc<TlsFiles>) -> Result<ClientTls, String> {
    let loaded = files.read().await?;
    let mut client = ClientTls::new();
    client = match (&loaded.authority, files.roots()) {
        (Some(pem), _) => client.ca_certificate(Certificate::from_pem(pem)),
        (None, Roots::System) => client.with_native_roots(),
        (None, Roots::Web) => client.with_webpki_roots(),
    };
    if let (Some(certificate), Some(key)) = (&loaded.certificate, &loaded.key) {
        client = client.identity(Identity::from_pem(certificate, key));
    }
    if let Some(name) = files.server_name() {
        client = client.domain_name(name);
    }
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Option<Arc<TlsFiles>>, String> {
        files(&Url::read(url).unwrap(), &ConnectionOptions::default())
    }

    #[test]
    fn what_cannot_be_used_is_said_at_once() {
        for (url, remedy) in [
            ("etcds://h?ca=/no/such.pem", "/no/such.pem"),
            ("etcds://h?cert=/dev/null", "both `cert=` and `key=`"),
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
        let text = files(&Url::read("etcds://h?roots=web").unwrap(), &options).unwrap_err();
        assert!(text.contains("no certificate in it") && !text.contains("s3cret"), "{text}");
        assert!(files(&Url::read("etcd://h").unwrap(), &options).unwrap_err().contains("`etcds`"));
    }
}
