//! One connection, which many tasks share: commands go out in one order, and replies come back in the same order.
//!
//! A caller appends its command to the queue of unsent bytes, and writes the queue to the socket itself, unless its
//! command is held back: see [`WriteCoalescing`]. So a command on an idle connection needs no other thread. The driver,
//! a task on the I/O thread, reads the replies, wakes the tasks that await them, and writes commands that were held
//! back. While requests follow each other quickly, a task on the callers' runtime does this instead: see
//! [`ReaderPolicy`].
//!
//! Rule: code that uses the socket holds its mutex, and checks the queue again after it has unlocked the mutex. A
//! caller only tries to lock this mutex. If this fails, its command is already in the queue, and the thread that has
//! the mutex will find it there. So no command that may be written stays in the queue. Commands that were held back are
//! written at the next reply, or by a timer of the I/O thread. The timer is needed because the task whose reply has
//! arrived may not be polled for a long time, and others must not wait for it.

mod caller_reader;
#[cfg(test)]
mod caller_reader_tests;
mod decoder;
mod flush_timer;
mod login_stream;
mod on_ready;
mod reader_policy;
mod replies;
mod reply_future;
#[cfg(test)]
mod tests;
mod write_coalescing;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, RedisResult, Value};
use tokio::io::AsyncWrite;
use tokio::runtime::{Handle, Id};
use tokio::task::unconstrained;

pub(crate) use self::caller_reader::this_runtime_has_io;
use self::decoder::ReplyDecoder;
use self::login_stream::LoginStream;
use self::reader_policy::{Reader, ReaderPolicy};
use self::replies::{Expected, Replies, Reply, ReplySlot};
use self::reply_future::ReplyFuture;
use self::write_coalescing::WriteCoalescing;
use super::spare;
use super::stream::Stream;
use crate::contained::contained;
use crate::process::Process;
use crate::reply_batch::{self, Deferrals};
use distlock_store::clock;
use distlock_store::kit::sync::Locked;

/// Empty buffers that are larger than this are freed.
const MAX_KEPT_CAPACITY: usize = 256 * 1024;

pub(super) struct Connection {
    queue: Locked<Queue>,
    /// `None`: the connection has ended.
    socket: Locked<Option<Socket>>,
    made_in: Process,
}

/// The state that callers and readers share. No foreign code runs while its mutex is held.
#[derive(Default)]
struct Queue {
    /// Commands of which no byte was passed to the socket.
    unsent: Vec<u8>,
    replies: Replies,
    coalescing: WriteCoalescing,
    ended: bool,
    reader_policy: ReaderPolicy<Id>,
    /// The waker of the driver on the I/O thread, in the runtime of that thread.
    io_waker: Option<Waker>,
    io_runtime: Option<Id>,
    /// The waker of the reader on the callers' runtime.
    caller_waker: Option<Waker>,
    /// `None`: the timer runs, or has not been polled yet.
    flush_timer: Option<Waker>,
}

impl Queue {
    fn may_write(&self) -> bool {
        !self.unsent.is_empty()
            && self.coalescing.may_write(self.replies.untaken(), self.reader_policy.reader(), clock::now)
    }

    /// Takes the waker of the timer, if the timer must start because commands are held back.
    fn take_flush_timer(&mut self) -> Option<Waker> {
        if self.unsent.is_empty() { None } else { self.flush_timer.take() }
    }

    /// Sets the waker of `reader`, and returns the former one.
    fn set_reader_waker(&mut self, reader: Reader, waker: &Waker) -> Result<Option<Waker>, Replaced> {
        if self.reader_policy.reader() != reader {
            return Err(Replaced);
        }
        let known = self.reader_waker();
        let is_known = known.as_ref().is_some_and(|known| known.will_wake(waker));
        Ok(if is_known { None } else { known.replace(waker.clone()) })
    }

    fn reader_waker(&mut self) -> &mut Option<Waker> {
        match self.reader_policy.reader() {
            Reader::IoThread => &mut self.io_waker,
            Reader::Caller(_) => &mut self.caller_waker,
        }
    }
}

struct Socket {
    stream: Stream,
    decoder: ReplyDecoder,
    /// The bytes that are being written, and the number of those that were written.
    out: Vec<u8>,
    written: usize,
    /// Whether the stream itself may still buffer bytes.
    unflushed: bool,
    /// The reason why the connection can no longer be used. The driver on the I/O thread then ends it.
    fault: Option<RedisError>,
}

/// What reads have made possible. Its memory is reused.
#[derive(Default)]
struct Batch {
    /// The tasks whose replies were read. Empty between reads.
    woken: Vec<Waker>,
    /// The work that no task awaits, until the reader has done it.
    deferrals: Deferrals,
}

/// Why a reader stops.
#[derive(Debug)]
enum Stop {
    /// The driver on the I/O thread then ends the connection.
    Ended(RedisError),
    Replaced,
}

/// Another task reads from now on.
#[derive(Debug)]
struct Replaced;

impl Connection {
    /// Logs in over `stream`. Replies arrive only while [`Connection::drive`] is polled.
    pub(super) async fn log_in(login: &RedisConnectionInfo, stream: Stream) -> RedisResult<Arc<Connection>> {
        let login_stream = LoginStream::new(stream);
        // The library's own driver is never polled, so it has read only the replies to the login.
        let settings = AsyncConnectionConfig::new().set_response_timeout(None);
        drop(MultiplexedConnection::new_with_config(login, login_stream.clone(), settings).await?);
        Ok(Connection::over(login_stream.take_back().ok_or_else(broken)?))
    }

    fn over(stream: Stream) -> Arc<Connection> {
        let socket = Socket {
            stream,
            decoder: ReplyDecoder::new(),
            out: Vec::new(),
            written: 0,
            unflushed: false,
            fault: None,
        };
        let socket = Locked::new(Some(socket));
        Arc::new(Connection { queue: Locked::default(), socket, made_in: Process::current() })
    }

    /// Sends one command, and frees its buffers as soon as it is written. The first poll fixes its place in the order.
    /// The future always becomes ready.
    pub(super) async fn request(self: &Arc<Self>, cmd: Cmd) -> RedisResult<Value> {
        let write = move |out: &mut Vec<u8>| {
            let before = out.len();
            cmd.write_packed_command(out);
            spare::give_back(cmd, out.len() - before);
        };
        match self.exchange(Expected::One, write).await? {
            Reply::One(value) => Ok(value),
            Reply::Several(_) => Err(broken()),
        }
    }

    /// Sends many commands in one write. Returns one value for each. Error replies are values.
    pub(super) async fn request_all(self: &Arc<Self>, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let write = |out: &mut Vec<u8>| out.extend(pipeline.get_packed_pipeline());
        match self.exchange(Expected::Several(pipeline.len()), write).await? {
            Reply::Several(values) => Ok(values),
            Reply::One(_) => Err(broken()),
        }
    }

    async fn exchange(
        self: &Arc<Self>,
        expected: Expected,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> RedisResult<Reply> {
        ReplyFuture { slot: self.enqueue(expected, write)?, connection: self, is_over: false }.await
    }

    fn enqueue(
        self: &Arc<Self>,
        expected: Expected,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> RedisResult<ReplySlot> {
        let (slot, may_write, change, timer) = {
            let mut queue = self.queue.lock();
            if queue.ended {
                return Err(broken());
            }
            write(&mut queue.unsent);
            queue.coalescing.expect(expected.count());
            let (slot, may_write) = (queue.replies.expect(expected), queue.may_write());
            let timer = if may_write { None } else { queue.take_flush_timer() };
            (slot, may_write, queue.change_of_reader(), timer)
        };
        wake(timer);
        if may_write {
            self.write();
        }
        if let Some(change) = change {
            self.make(change);
        }
        Ok(slot)
    }

    /// Whether commands must be written now. The timer writes commands that are held back.
    fn may_write(&self) -> bool {
        let mut queue = self.queue.lock();
        let may_write = queue.may_write();
        let timer = if may_write { None } else { queue.take_flush_timer() };
        drop(queue);
        wake(timer);
        may_write
    }

    /// Writes the queue to the socket, on the caller's thread.
    fn write(&self) {
        loop {
            let written = {
                let Some(mut socket) = self.socket.try_lock() else { return };
                let Some(socket) = &mut *socket else { return };
                let mut write = pin!(unconstrained(poll_fn(|cx| self.poll_write(socket, cx))));
                // Cooperative scheduling must not delay it, because it is polled only once.
                write.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            };
            if written.is_pending() {
                // The socket accepts no more for now, or is broken. Its reader continues.
                let reader = self.queue.lock().reader_waker().take();
                wake(reader);
                return;
            }
            if !self.may_write() {
                return;
            }
        }
    }

    /// Access to the socket for purposes other than reading and writing. `None`: the connection has ended.
    fn with_socket<T>(&self, work: impl FnOnce(&mut Socket) -> T) -> Option<T> {
        let done = self.socket.lock().as_mut().map(work);
        // Writes the commands of callers that found the mutex locked.
        if self.may_write() {
            self.write();
        }
        done
    }

    /// Writes the rest of the current bytes, and then the queue. Pending: the socket accepts no more.
    fn poll_write(&self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<()> {
        ready!(socket.poll_write(cx));
        {
            let mut queue = self.queue.lock();
            if !queue.may_write() {
                return Poll::Ready(());
            }
            let (now, in_flight) = (clock::now(), queue.replies.in_flight());
            queue.coalescing.write(now);
            queue.reader_policy.wrote(now, in_flight);
            mem::swap(&mut queue.unsent, &mut socket.out);
        }
        socket.poll_write(cx)
    }

    /// Reads replies, wakes the tasks that await them, and writes commands that were held back, until the connection
    /// ends. While the callers' runtime reads, this checks its reader.
    pub(super) fn drive(self: Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        // Created before the first poll, because an aborted task may never be polled.
        let end = EndOnDrop(self);
        async move {
            let connection = &*end.0;
            let error = tokio::select! {
                biased;
                error = connection.read_to_the_end() => error,
                never = connection.flush_when_due() => match never {},
            };
            connection.end(&error);
        }
    }

    async fn read_to_the_end(&self) -> RedisError {
        self.queue.lock().io_runtime = Handle::try_current().ok().map(|handle| handle.id());
        let mut batch = Batch::default();
        loop {
            match poll_fn(|cx| self.poll_drive(&mut batch, cx)).await {
                Stop::Ended(error) => return error,
                Stop::Replaced => {
                    if let Err(error) = self.check_caller_reader().await {
                        return error;
                    }
                }
            }
        }
    }

    fn poll_drive(&self, batch: &mut Batch, cx: &mut Context<'_>) -> Poll<Stop> {
        loop {
            let driven = self.poll_drive_once(Reader::IoThread, batch, cx);
            reply_batch::run(&mut batch.deferrals);
            if let Some(stop) = ready!(driven) {
                return Poll::Ready(stop);
            }
        }
    }

    /// `None`: there may be more data to read or to write.
    fn poll_drive_once(&self, reader: Reader, batch: &mut Batch, cx: &mut Context<'_>) -> Poll<Option<Stop>> {
        let driven = {
            let mut socket = self.socket.lock();
            let Some(socket) = &mut *socket else { return Poll::Ready(Some(Stop::Ended(broken()))) };
            let is_reader = self.queue.lock().set_reader_waker(reader, cx.waker());
            match is_reader {
                Ok(former) => {
                    let read = self.poll_read(socket, &mut batch.woken, cx);
                    let is_full = self.poll_write(socket, cx).is_pending();
                    Some((read, is_full, socket.fault.clone(), former))
                }
                Err(Replaced) => None,
            }
        };
        let Some((read, is_full, fault, former)) = driven else {
            // A caller that found the socket's mutex locked relies on this.
            if self.may_write() {
                self.write();
            }
            return Poll::Ready(Some(Stop::Replaced));
        };
        drop(former);
        reply_batch::wake_all(batch.woken.drain(..), &mut batch.deferrals);
        if let Some(error) = fault {
            return Poll::Ready(Some(Stop::Ended(error)));
        }
        // A caller that found the socket's mutex locked relies on this. If the socket accepts no more, its wake-up is
        // enough.
        if read.is_pending() && (is_full || !self.may_write()) {
            return Poll::Pending;
        }
        Poll::Ready(None)
    }

    /// Reads once, and passes the replies to the requests. Nothing is read after a fault.
    fn poll_read(&self, socket: &mut Socket, woken: &mut Vec<Waker>, cx: &mut Context<'_>) -> Poll<()> {
        if socket.fault.is_some() {
            return Poll::Ready(());
        }
        let read = ready!(socket.decoder.poll_read(&mut socket.stream, cx));
        let mut queue = self.queue.lock();
        queue.coalescing.answered(socket.decoder.values.len(), clock::now);
        queue.reader_policy.has_read();
        let mut were_asked_for = true;
        for value in socket.decoder.values.drain(..) {
            were_asked_for &= queue.replies.answer(value, woken);
        }
        socket.fault = match (were_asked_for, read) {
            (true, read) => read.err(),
            (false, _) => Some(unexpected()),
        };
        Poll::Ready(())
    }

    /// Ends the connection: no more commands are sent, and no reply arrives.
    fn end(&self, error: &RedisError) {
        let socket = self.socket.lock().take();
        // Closes the connection before a caller learns that it has ended.
        drop(socket);
        let mut woken = Vec::new();
        {
            let mut queue = self.queue.lock();
            queue.ended = true;
            queue.unsent = Vec::new();
            woken.extend(queue.caller_waker.take());
            queue.replies.end(|| error.clone(), &mut woken);
        }
        let mut deferrals = Deferrals::new();
        reply_batch::wake_all(woken.into_iter(), &mut deferrals);
        reply_batch::run(&mut deferrals);
    }
}

/// Ends the connection if the driver is aborted, too.
struct EndOnDrop(Arc<Connection>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(&broken());
    }
}

impl Socket {
    /// Pending if bytes are left (the socket wakes the waker when it accepts more), or if the socket is broken.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.try_write(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => {
                self.fault.get_or_insert_with(|| error.into());
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
        if self.out.capacity() > MAX_KEPT_CAPACITY {
            self.out = Vec::new();
        }
        self.out.clear();
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// A waker is foreign code, so no mutex may be held, not even by a temporary value in the call.
fn wake(waker: Option<Waker>) {
    drop(contained(|| waker.map(Waker::wake)));
}

fn broken() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

fn unexpected() -> RedisError {
    io::Error::new(io::ErrorKind::InvalidData, "the server sent a reply that no command expects").into()
}
