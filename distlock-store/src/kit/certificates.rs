//! Why a server was not trusted, and the remedy.

use std::error::Error;
use std::io;

use tokio_rustls::rustls::{CertificateError, Error as TlsError};

/// The remedy for an error that is caused by the server's certificate.
pub fn remedy(error: &(dyn Error + 'static)) -> Option<&'static str> {
    match tls_error(error)? {
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => Some(
            "name the file of the authority that signed the server's certificate with `ca=`, or trust the \
             authorities of the system with `roots=system`",
        ),
        TlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some(
            "write the host in the URL as the server's certificate names it, or set `tls_name=` to the name \
             in the certificate",
        ),
        TlsError::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => Some("renew the server's certificate, or set the clock of this machine"),
        TlsError::InvalidCertificate(_) => Some("give the server another certificate"),
        _ => None,
    }
}

fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // Its source would be that of the error within.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(within) => Some(within),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_found_wherever_it_stands() {
        let cause = || TlsError::InvalidCertificate(CertificateError::UnknownIssuer);
        let within = io::Error::new(io::ErrorKind::InvalidData, cause());
        let twice = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, cause()));
        for error in [&cause() as &(dyn Error + 'static), &within, &twice] {
            assert!(remedy(error).is_some_and(|text| text.contains("`ca=`")), "{error}");
        }
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!((remedy(&refused), remedy(&TlsError::HandshakeNotComplete)), (None, None));
    }
}
