//! A socket that is registered with a runtime, and that can be moved to another.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use redis::io::tcp::socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::runtime::is_rt_shutdown_err;

/// A socket whose readiness a runtime reports. The end of that runtime is not a fault of the connection. Until the
/// socket is registered elsewhere, it is never ready.
pub(super) enum Registered {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// A socket that no runtime watches.
pub(super) struct Unregistered(Socket);

impl Registered {
    /// Another descriptor of the same socket.
    pub(super) fn duplicate(&self) -> io::Result<Unregistered> {
        Ok(Unregistered(self.as_socket().try_clone()?))
    }

    /// The same descriptor, which its runtime no longer watches.
    pub(super) fn deregister(self) -> io::Result<Unregistered> {
        Ok(Unregistered(match self {
            Registered::Tcp(socket) => socket.into_std()?.into(),
            #[cfg(unix)]
            Registered::Unix(socket) => socket.into_std()?.into(),
        }))
    }

    pub(super) fn as_socket(&self) -> SockRef<'_> {
        match self {
            Registered::Tcp(socket) => SockRef::from(socket),
            #[cfg(unix)]
            Registered::Unix(socket) => SockRef::from(socket),
        }
    }
}

impl Unregistered {
    /// Registers it with the current runtime.
    ///
    /// # Panics
    /// If there is none, or if it has no I/O driver.
    pub(super) fn register(self) -> io::Result<Registered> {
        #[cfg(unix)]
        if self.0.local_addr()?.is_unix() {
            return Ok(Registered::Unix(UnixStream::from_std(self.0.into())?));
        }
        Ok(Registered::Tcp(TcpStream::from_std(self.0.into())?))
    }

    /// Whether there is something to read: bytes, the end, or a fault.
    pub(super) fn is_readable(&self) -> bool {
        let peeked = self.0.peek(&mut [MaybeUninit::uninit()]);
        !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

macro_rules! on_socket {
    ($self:ident, $socket:ident => $call:expr) => {
        match $self.get_mut() {
            Registered::Tcp($socket) => $call,
            #[cfg(unix)]
            Registered::Unix($socket) => $call,
        }
    };
}

/// If the runtime has ended, pending: who registers the socket elsewhere polls it then.
fn unless_runtime_ended<T>(polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
    match polled {
        Poll::Ready(Err(error)) if is_rt_shutdown_err(&error) => Poll::Pending,
        polled => polled,
    }
}

impl AsyncRead for Registered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        unless_runtime_ended(on_socket!(self, socket => Pin::new(socket).poll_read(cx, buf)))
    }
}

impl AsyncWrite for Registered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        unless_runtime_ended(on_socket!(self, socket => Pin::new(socket).poll_write(cx, buf)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        unless_runtime_ended(on_socket!(self, socket => Pin::new(socket).poll_write_vectored(cx, bufs)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, socket => Pin::new(socket).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, socket => Pin::new(socket).poll_shutdown(cx))
    }
}
