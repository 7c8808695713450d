//! A connection that fails if its peer does not read.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A write fails if the peer takes in nothing for `limit`. Otherwise a peer that sends requests and never reads the
/// responses would keep its place for ever.
#[derive(Debug)]
pub(super) struct FailsUnread<S> {
    stream: S,
    limit: Duration,
    /// Set while the peer takes in nothing.
    ends: Option<Pin<Box<Sleep>>>,
}

impl<S> FailsUnread<S> {
    pub(super) fn after(limit: Duration, stream: S) -> Self {
        FailsUnread { stream, limit, ends: None }
    }

    fn within_limit<T>(&mut self, cx: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.ends = None;
            return written;
        }
        let ends = self.ends.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        ends.as_mut().poll(cx).map(|()| Err(Error::new(ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FailsUnread<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FailsUnread<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within_limit(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.within_limit(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_when_the_peer_has_read_nothing_for_the_limit() {
        let (stream, mut peer) = tokio::io::duplex(16);
        let mut stream = FailsUnread::after(LIMIT, stream);
        let begun = Instant::now();
        // The peer reads once, shortly before the limit.
        let reads = async {
            sleep(LIMIT - Duration::from_secs(1)).await;
            peer.read_exact(&mut [0; 8]).await.unwrap();
        };
        let (written, ()) = tokio::join!(stream.write_all(&[0; 64]), reads);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), (LIMIT * 2).as_secs() - 1);
    }
}
