//! Replaces tls.rs if the feature `tls` is off. There are no secured connections, and URLs that need them are refused
//! earlier.

use std::io;

use super::registered::Registered;
use super::url::RedisUrl;
use distlock_store::kit::connection::ConnectionOptions;

#[derive(Clone, Debug, Default)]
pub(super) struct Tls;

/// Never made.
pub(super) type TlsStream = Registered;

impl Tls {
    pub(super) fn of(_: &RedisUrl, _: &ConnectionOptions) -> Result<Tls, String> {
        Ok(Tls)
    }

    pub(super) async fn wrap(&self, _: &str, _: Registered) -> io::Result<TlsStream> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(super) fn under(stream: &TlsStream) -> &Registered {
    stream
}

pub(super) fn under_mut(stream: &mut TlsStream) -> &mut Registered {
    stream
}
