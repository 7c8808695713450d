//! One connection as a sequence of commands and their replies.
//!
//! A caller puts its command into the queue in front of the socket, and writes the queue to the socket itself
//! unless somebody else is about to: see [`Pace`]. So a command on an idle connection costs no other thread's
//! time. The driver, a task of the I/O thread, reads all replies, wakes the tasks that await them, and writes
//! what was held back.
//!
//! Rule: whoever uses the socket holds its mutex. A caller never waits for that mutex: if somebody else has
//! it, that one looks at the queue once more after giving it back. So nothing stays in the queue that may be
//! written.

mod lent;
mod pace;
mod replies;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, RedisResult, Value, ValueCodec,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::unconstrained;
use tokio_util::codec::Decoder;

use self::lent::Lent;
use self::pace::Pace;
use self::replies::{Expected, Look, Place, Replies, Reply};
use super::stream::Stream;
use crate::clock;
use crate::contained::contained;

/// How much is read at once.
const CHUNK: usize = 16 * 1024;
/// Buffers that have grown beyond this are given back when they are empty.
const LARGEST_KEPT: usize = 256 * 1024;

pub(super) struct Conduit {
    queue: Mutex<Queue>,
    /// `None`: the connection has ended.
    socket: Mutex<Option<Socket>>,
}

/// What callers and the driver agree upon. No foreign code runs while its mutex is held.
#[derive(Default)]
struct Queue {
    /// Commands that nobody has begun to write.
    unsent: Vec<u8>,
    replies: Replies,
    pace: Pace,
    ended: bool,
    driver: Option<Waker>,
}

impl Queue {
    fn may_write(&self) -> bool {
        !self.unsent.is_empty() && self.pace.may_write(self.replies.untaken(), clock::now)
    }
}

struct Socket {
    stream: Stream,
    /// What is being written, and how far that has got.
    out: Vec<u8>,
    written: usize,
    /// Whether bytes may be left in the stream itself.
    unflushed: bool,
    /// Why nothing can be written any more. The driver reports it.
    fault: Option<io::Error>,
}

/// What the driver reads with.
struct Reader {
    chunk: Vec<u8>,
    bytes: BytesMut,
    codec: ValueCodec,
    /// Emptied after each read, and kept for the next.
    values: Vec<Value>,
    woken: Vec<Waker>,
}

impl Conduit {
    /// Logs in over `stream`. The conduit works while [`Conduit::drive`] is polled.
    pub(super) async fn log_in(login: &RedisConnectionInfo, stream: Stream) -> RedisResult<Arc<Conduit>> {
        let lent = Lent::new(stream);
        // The library's own driver is never polled: it has read nothing but the replies to the login.
        let settings = AsyncConnectionConfig::new().set_response_timeout(None);
        drop(MultiplexedConnection::new_with_config(login, lent.clone(), settings).await?);
        let stream = lent.take_back().ok_or_else(broken)?;
        let socket = Socket { stream, out: Vec::new(), written: 0, unflushed: false, fault: None };
        Ok(Arc::new(Conduit { queue: Mutex::default(), socket: Mutex::new(Some(socket)) }))
    }

    /// One command. The first poll fixes its place in the order. Always becomes ready.
    pub(super) async fn request(&self, cmd: &Cmd) -> RedisResult<Value> {
        let write = |out: &mut Vec<u8>| cmd.write_packed_command(out);
        match self.exchange(Expected::One, write).await? {
            Reply::One(value) => Ok(value),
            Reply::Several(_) => Err(broken()),
        }
    }

    /// Many commands, in one write. Returns one value for each; error replies are values.
    pub(super) async fn request_all(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let write = |out: &mut Vec<u8>| out.extend(pipeline.get_packed_pipeline());
        match self.exchange(Expected::Several(pipeline.len()), write).await? {
            Reply::Several(values) => Ok(values),
            Reply::One(_) => Err(broken()),
        }
    }

    async fn exchange(&self, expected: Expected, write: impl FnOnce(&mut Vec<u8>)) -> RedisResult<Reply> {
        let request = Request { place: self.enqueue(expected, write)?, conduit: self, is_over: false };
        request.await
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, expected: Expected, write: impl FnOnce(&mut Vec<u8>)) -> RedisResult<Place> {
        let (place, may_write) = {
            let mut queue = self.queue();
            if queue.ended {
                return Err(broken());
            }
            write(&mut queue.unsent);
            queue.pace.expect(expected.count());
            (queue.replies.expect(expected), queue.may_write())
        };
        if may_write {
            self.write();
        }
        Ok(place)
    }

    /// Writes the queue to the socket, on the caller's thread.
    fn write(&self) {
        loop {
            let written = {
                let Ok(mut socket) = self.socket.try_lock() else { return };
                let Some(socket) = &mut *socket else { return };
                let mut write = pin!(unconstrained(poll_fn(|cx| self.poll_write(socket, cx))));
                // Not delayed by cooperative scheduling, although nobody awaits it.
                write.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            };
            if written.is_pending() {
                // The socket takes no more for now, or never: the driver goes on.
                let driver = self.queue().driver.take();
                drop(contained(|| driver.map(Waker::wake)));
                return;
            }
            if !self.queue().may_write() {
                return;
            }
        }
    }

    /// Writes what has been begun, and then the queue. Pending: there is a rest.
    fn poll_write(&self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<()> {
        ready!(socket.poll_write(cx));
        {
            let mut queue = self.queue();
            if !queue.may_write() {
                return Poll::Ready(());
            }
            queue.pace.write(clock::now());
            std::mem::swap(&mut queue.unsent, &mut socket.out);
        }
        socket.poll_write(cx)
    }

    /// Reads replies, wakes the tasks that await them, and writes what was held back, until the connection
    /// ends.
    pub(super) async fn drive(self: Arc<Self>) {
        let _end = EndOnDrop(&self);
        let mut reader = Reader {
            chunk: vec![0; CHUNK],
            bytes: BytesMut::with_capacity(CHUNK),
            codec: ValueCodec::default(),
            values: Vec::new(),
            woken: Vec::new(),
        };
        let error = poll_fn(|cx| self.poll_drive(&mut reader, cx)).await;
        self.end(&error);
    }

    fn poll_drive(&self, reader: &mut Reader, cx: &mut Context<'_>) -> Poll<RedisError> {
        let former = self.queue().driver.replace(cx.waker().clone());
        drop(former);
        loop {
            let (read, is_full) = {
                let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(socket) = &mut *socket else { return Poll::Ready(broken()) };
                let read = self.poll_read(socket, reader, cx);
                let is_full = self.poll_write(socket, cx).is_pending();
                if let Some(fault) = socket.fault.take() {
                    return Poll::Ready(fault.into());
                }
                (read, is_full)
            };
            for waker in reader.woken.drain(..) {
                drop(contained(|| waker.wake()));
            }
            match read {
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Ready(Ok(())) => {}
                // A caller that found the socket's mutex locked relies on this look. If the socket takes no
                // more, its own wake-up is enough.
                Poll::Pending if is_full || !self.queue().may_write() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }

    /// Reads once, and gives the replies to the requests.
    fn poll_read(
        &self,
        socket: &mut Socket,
        reader: &mut Reader,
        cx: &mut Context<'_>,
    ) -> Poll<RedisResult<()>> {
        let mut buffer = ReadBuf::new(&mut reader.chunk);
        if let Err(error) = ready!(Pin::new(&mut socket.stream).poll_read(cx, &mut buffer)) {
            return Poll::Ready(Err(error.into()));
        }
        if buffer.filled().is_empty() {
            return Poll::Ready(Err(broken()));
        }
        reader.bytes.extend_from_slice(buffer.filled());
        let parsed = loop {
            match reader.codec.decode(&mut reader.bytes) {
                // Not a reply: the server tells something by itself.
                Ok(Some(Value::Push { .. })) => {}
                Ok(Some(value)) => reader.values.push(value),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let mut queue = self.queue();
        queue.pace.answered(reader.values.len());
        for value in reader.values.drain(..) {
            if !queue.replies.answer(value, &mut reader.woken) {
                return Poll::Ready(Err(unexpected()));
            }
        }
        Poll::Ready(parsed)
    }

    /// Nothing is sent any more, and no reply comes.
    fn end(&self, error: &RedisError) {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Closes the connection before anybody learns that it has ended.
        drop(socket);
        let mut woken = Vec::new();
        {
            let mut queue = self.queue();
            queue.ended = true;
            queue.unsent = Vec::new();
            queue.replies.end(|| error.clone(), &mut woken);
        }
        for waker in woken {
            drop(contained(|| waker.wake()));
        }
    }
}

/// The driver may also be aborted.
struct EndOnDrop<'a>(&'a Conduit);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end(&broken());
    }
}

impl Socket {
    /// Pending: there is a rest, and the waker is told when the socket takes it; or the socket is broken.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.try_write(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => {
                self.fault = Some(error);
                Poll::Pending
            }
        }
    }

    fn try_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            self.unflushed = true;
            let rest = self.out.get(self.written..).unwrap_or_default();
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        self.written = 0;
        if self.out.capacity() > LARGEST_KEPT {
            self.out = Vec::new();
        }
        self.out.clear();
        Poll::Ready(Ok(()))
    }
}

/// A request whose command has its place in the order.
struct Request<'a> {
    conduit: &'a Conduit,
    place: Place,
    is_over: bool,
}

impl Future for Request<'_> {
    type Output = RedisResult<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RedisResult<Reply>> {
        let mut waker = None;
        loop {
            let mut queue = self.conduit.queue();
            match (queue.replies.look(self.place, cx.waker()), waker.take()) {
                (Look::Ready(reply), _) => {
                    let may_write = queue.replies.untaken() == 0 && queue.may_write();
                    drop(queue);
                    self.is_over = true;
                    if may_write {
                        self.conduit.write();
                    }
                    return Poll::Ready(reply);
                }
                (Look::Known, _) => return Poll::Pending,
                (Look::Other, Some(new)) => {
                    let former = queue.replies.set_waker(self.place, new);
                    drop(queue);
                    drop(former);
                    return Poll::Pending;
                }
                (Look::Other, None) => {
                    // A waker is foreign code.
                    drop(queue);
                    waker = Some(cx.waker().clone());
                }
            }
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut queue = self.conduit.queue();
        let former = queue.replies.forget(self.place);
        let may_write = queue.may_write();
        drop(queue);
        drop(former);
        if may_write {
            self.conduit.write();
        }
    }
}

impl fmt::Debug for Conduit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conduit").finish_non_exhaustive()
    }
}

fn broken() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

fn unexpected() -> RedisError {
    io::Error::new(io::ErrorKind::InvalidData, "the server replied to nothing that it was asked").into()
}
