//! Replaces tls.rs if the feature `tls` is off. There are no secured connections, and URLs that need them are refused
//! earlier.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::config_error::ConfigError;
use super::registered::Registered;
use super::url::RedisUrl;
use distlock_store::kit::connection::ConnectionOptions;

#[derive(Clone, Debug, Default)]
pub(super) struct Tls;

pub(super) enum TlsStream {}

impl Tls {
    pub(super) fn of(_: &RedisUrl, _: &ConnectionOptions) -> Result<Tls, ConfigError> {
        Ok(Tls)
    }

    pub(super) async fn wrap(&self, _: &str, _: Registered) -> io::Result<TlsStream> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl TlsStream {
    pub(super) fn get_ref(&self) -> (&Registered, ()) {
        match *self {}
    }

    pub(super) fn get_mut(&mut self) -> (&mut Registered, ()) {
        match *self {}
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}
