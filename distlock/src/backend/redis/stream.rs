//! The socket of a connection, and its liveness.
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

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(unix)]
use tokio::net::UnixStream;

use super::config::Address;
use super::dial::dial;
use super::registered::{Registered, Unregistered};
use super::tls::{Tls, TlsStream, under, under_mut};
use crate::observe::{Notice, notice};

/// The state of a connection that is visible without sending.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    heard: AtomicU64,
    ended: AtomicBool,
    abandoned: AtomicBool,
}

impl Liveness {
    /// Changes whenever bytes have arrived.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// True from before the requests in progress fail. (Each of them gets a reply or an error in any case.)
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
    socket: MaybeTls,
    /// While another runtime polls the socket: the descriptor with which it is taken back.
    original: Option<Unregistered>,
    liveness: Arc<Liveness>,
}

enum MaybeTls {
    Plain(Registered),
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(super) async fn connect(address: &Address, tls: &Tls, liveness: Arc<Liveness>) -> io::Result<Stream> {
        let dialled = async |host: &str, port| Ok::<_, io::Error>(Registered::Tcp(dial(host, port).await?));
        let socket = match address {
            Address::Tcp { host, port } => MaybeTls::Plain(dialled(host, *port).await?),
            Address::Tls { host, port } => {
                MaybeTls::Tls(Box::new(tls.wrap(host, dialled(host, *port).await?).await?))
            }
            #[cfg(unix)]
            Address::Unix(path) => MaybeTls::Plain(Registered::Unix(UnixStream::connect(path).await?)),
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Stream { socket, original: None, liveness })
    }

    fn registered(&self) -> &Registered {
        match &self.socket {
            MaybeTls::Plain(socket) => socket,
            MaybeTls::Tls(tls) => under(tls),
        }
    }

    fn registered_mut(&mut self) -> &mut Registered {
        match &mut self.socket {
            MaybeTls::Plain(socket) => socket,
            MaybeTls::Tls(tls) => under_mut(tls),
        }
    }

    /// To be registered with another runtime, and then given to [`Stream::move_to`].
    pub(super) fn duplicate(&self) -> io::Result<Unregistered> {
        self.registered().duplicate()
    }

    /// From now on, the runtime with which `duplicate` is registered learns when the socket is ready, and the former
    /// one does not. Partly read or written data stays here. `Err`: the socket can no longer be used.
    pub(super) fn move_to(&mut self, duplicate: Registered) -> io::Result<()> {
        let former = std::mem::replace(self.registered_mut(), duplicate);
        self.original = Some(former.deregister()?);
        Ok(())
    }

    /// Undoes [`Stream::move_to`], on the runtime that the socket had before. It needs no new descriptor, because a
    /// process may have run out of them. Returns the values to drop.
    pub(super) fn take_back(&mut self) -> io::Result<Option<Registered>> {
        let Some(original) = self.original.take() else { return Ok(None) };
        let own = original.register()?;
        Ok(Some(std::mem::replace(self.registered_mut(), own)))
    }

    /// Whether bytes have arrived that the other runtime has not read yet.
    pub(super) fn has_unread(&self) -> bool {
        self.original.as_ref().is_some_and(Unregistered::is_readable)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.liveness.end();
        if !self.liveness.abandoned.load(Ordering::SeqCst) {
            return;
        }
        let Registered::Tcp(_) = self.registered() else { return };
        // Best effort: without it the kernel continues to send until the user timeout.
        if self.registered().as_socket().set_linger(Some(Duration::ZERO)).is_err() {
            notice(Notice::UnsentDataKept);
        }
    }
}

macro_rules! on_socket {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.socket {
            MaybeTls::Plain($stream) => $call,
            MaybeTls::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let this = self.get_mut();
        let result = ready!(on_socket!(this, stream => Pin::new(stream).poll_read(cx, buf)));
        if result.is_ok() && buf.filled().len() > before {
            this.liveness.heard.fetch_add(1, Ordering::Relaxed);
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
