//! The stream while the client library logs in over it. The connection takes it back afterwards.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::backend::redis::stream::Stream;
use distlock_store::kit::sync::Locked;

/// The stream for the client library. It is closed as soon as the connection has taken the stream back.
#[derive(Clone)]
pub(super) struct LoginStream(Arc<Locked<Option<Stream>>>);

impl LoginStream {
    pub(super) fn new(stream: Stream) -> LoginStream {
        LoginStream(Arc::new(Locked::new(Some(stream))))
    }

    pub(super) fn take_back(&self) -> Option<Stream> {
        self.0.lock().take()
    }

    fn poll<T>(&self, poll: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &mut *self.0.lock() {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for LoginStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for LoginStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_shutdown(cx))
    }
}
