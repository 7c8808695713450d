//! The socket of a connection, and its pulse.
//!
//! It is opened here and not by the client library, so that the supervisor can see what happens below the
//! replies: whether bytes still arrive (although the tasks that await the replies may be blocked), and that
//! the connection has ended, before its queue is emptied for the last time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::io::tcp::socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use super::config::Address;
use super::dial::dial;
use super::tls::Tls;
use crate::observe::{Notice, notice};

/// What can be known about a connection without sending anything.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    heard: AtomicU64,
    ended: AtomicBool,
    abandoned: AtomicBool,
}

impl Pulse {
    /// Changes whenever bytes have arrived.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// True from before the requests under way fail. (Each of them gets a reply or an error in any case.)
    pub(super) fn has_ended(&self) -> bool {
        fence(Ordering::SeqCst);
        self.ended.load(Ordering::SeqCst)
    }

    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Data that has not left this machine yet is discarded when the socket closes, instead of arriving
    /// later.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        self.end();
    }
}

/// A connected socket.
pub(super) struct Stream {
    socket: Socket,
    pulse: Arc<Pulse>,
}

enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) async fn connect(address: &Address, tls: &Tls, pulse: Arc<Pulse>) -> io::Result<Stream> {
        #[cfg(not(feature = "tls"))]
        let _: &Tls = tls;
        let socket = match address {
            Address::Tcp { host, port } => Socket::Tcp(dial(host, *port).await?),
            #[cfg(feature = "tls")]
            Address::Tls { host, port } => {
                Socket::Tls(Box::new(tls.wrap(host, dial(host, *port).await?).await?))
            }
            #[cfg(not(feature = "tls"))]
            Address::Tls { .. } => return Err(io::ErrorKind::Unsupported.into()),
            #[cfg(unix)]
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path).await?),
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Stream { socket, pulse })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.pulse.end();
        if !self.pulse.abandoned.load(Ordering::SeqCst) {
            return;
        }
        let tcp = match &self.socket {
            Socket::Tcp(tcp) => tcp,
            #[cfg(feature = "tls")]
            Socket::Tls(tls) => tls.get_ref().0,
            #[cfg(unix)]
            Socket::Unix(_) => return,
        };
        // Best effort: without it the kernel goes on sending until the user timeout.
        if SockRef::from(tcp).set_linger(Some(Duration::ZERO)).is_err() {
            notice(Notice::UnsentDataKept);
        }
    }
}

macro_rules! on_socket {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.socket {
            Socket::Tcp($stream) => $call,
            #[cfg(unix)]
            Socket::Unix($stream) => $call,
            #[cfg(feature = "tls")]
            Socket::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let this = self.get_mut();
        let result = ready!(on_socket!(this, stream => Pin::new(stream).poll_read(cx, buf)));
        if result.is_ok() && buf.filled().len() > before {
            this.pulse.heard.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(result)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        on_socket!(this, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        on_socket!(this, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        on_socket!(this, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
