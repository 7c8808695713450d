//! One connection as a sequence of commands and their replies.
//!
//! A caller puts its command into the queue in front of the socket, and writes the queue to the socket itself
//! unless somebody else is about to: see [`Pace`]. So a command on an idle connection costs no other thread's
//! time. The driver, a task of the I/O thread, reads the replies, wakes the tasks that await them, and writes
//! what was held back. While requests follow each other quickly, and are not too many, the callers' runtime does
//! this in its place: see [`Lending`].
//!
//! Rule: whoever uses the socket holds its mutex. A caller never waits for that mutex: if somebody else has
//! it, that one looks at the queue once more after giving it back. So nothing stays in the queue that may be
//! written. What is held back is written by a timer of the I/O thread, if no reply comes before: a task whose reply has
//! come may not be polled for long, and others must not wait for it.

mod guest;
#[cfg(test)]
mod guest_tests;
mod held_back;
mod lending;
mod login_stream;
mod on_ready;
mod pace;
mod reading;
mod replies;
mod request;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, RedisResult, Value};
use tokio::io::AsyncWrite;
use tokio::runtime::{Handle, Id};
use tokio::task::unconstrained;

pub(crate) use self::guest::this_runtime_has_io;
use self::lending::{Lending, Reader};
use self::login_stream::LoginStream;
use self::pace::Pace;
use self::reading::Reading;
use self::replies::{Expected, Place, Replies, Reply};
use self::request::Request;
use super::spare;
use super::stream::Stream;
use crate::contained::contained;
use crate::process::Process;
use distlock_store::clock;

/// Buffers that have grown beyond this are given back when they are empty.
const LARGEST_KEPT: usize = 256 * 1024;

pub(super) struct Conduit {
    queue: Mutex<Queue>,
    /// `None`: the connection has ended.
    socket: Mutex<Option<Socket>>,
    made_in: Process,
}

/// What callers and the driver agree upon. No foreign code runs while its mutex is held.
#[derive(Default)]
struct Queue {
    /// Commands that nobody has begun to write.
    unsent: Vec<u8>,
    replies: Replies,
    pace: Pace,
    ended: bool,
    lending: Lending<Id>,
    /// Of the task on the I/O thread, and that thread's runtime.
    home: Option<Waker>,
    home_runtime: Option<Id>,
    guest: Option<Waker>,
    /// Of the timer for what is held back. `None`: it runs, or there is none.
    timer: Option<Waker>,
}

impl Queue {
    fn may_write(&self) -> bool {
        !self.unsent.is_empty()
            && self.pace.may_write(self.replies.untaken(), self.lending.reader(), clock::now)
    }

    /// What has to be woken because something is held back. `None`: it is awake, or nothing is.
    fn timer_of_the_rest(&mut self) -> Option<Waker> {
        if self.unsent.is_empty() { None } else { self.timer.take() }
    }

    /// Sets what wakes the driver, if that is `reader`, and returns the former waker.
    fn attend(&mut self, reader: Reader, waker: &Waker) -> Result<Option<Waker>, Replaced> {
        if self.lending.reader() != reader {
            return Err(Replaced);
        }
        let known = self.driver();
        let is_known = known.as_ref().is_some_and(|known| known.will_wake(waker));
        Ok(if is_known { None } else { known.replace(waker.clone()) })
    }

    fn driver(&mut self) -> &mut Option<Waker> {
        match self.lending.reader() {
            Reader::Home => &mut self.home,
            Reader::Guest(_) => &mut self.guest,
        }
    }
}

struct Socket {
    stream: Stream,
    reading: Reading,
    /// What is being written, and how far that has got.
    out: Vec<u8>,
    written: usize,
    /// Whether bytes may be left in the stream itself.
    unflushed: bool,
    /// Why the connection cannot be used any more. The driver at home reports it.
    fault: Option<RedisError>,
}

/// Why a driver stops.
#[derive(Debug)]
enum Stop {
    /// The driver at home ends the connection then.
    Ended(RedisError),
    Replaced,
}

/// Another one reads from now on.
#[derive(Debug)]
struct Replaced;

impl Conduit {
    /// Logs in over `stream`. The conduit works while [`Conduit::drive`] is polled.
    pub(super) async fn log_in(login: &RedisConnectionInfo, stream: Stream) -> RedisResult<Arc<Conduit>> {
        let login_stream = LoginStream::new(stream);
        // The library's own driver is never polled: it has read nothing but the replies to the login.
        let settings = AsyncConnectionConfig::new().set_response_timeout(None);
        drop(MultiplexedConnection::new_with_config(login, login_stream.clone(), settings).await?);
        Ok(Conduit::over(login_stream.take_back().ok_or_else(broken)?))
    }

    fn over(stream: Stream) -> Arc<Conduit> {
        let socket = Socket {
            stream,
            reading: Reading::new(),
            out: Vec::new(),
            written: 0,
            unflushed: false,
            fault: None,
        };
        let socket = Mutex::new(Some(socket));
        Arc::new(Conduit { queue: Mutex::default(), socket, made_in: Process::current() })
    }

    /// One command, whose buffers are free once it is written. The first poll fixes its place in the order. Always
    /// becomes ready.
    pub(super) async fn request(self: &Arc<Self>, cmd: Cmd) -> RedisResult<Value> {
        let write = move |out: &mut Vec<u8>| {
            cmd.write_packed_command(out);
            spare::give_back(cmd);
        };
        match self.exchange(Expected::One, write).await? {
            Reply::One(value) => Ok(value),
            Reply::Several(_) => Err(broken()),
        }
    }

    /// Many commands, in one write. Returns one value for each; error replies are values.
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
        let request = Request { place: self.enqueue(expected, write)?, conduit: self, is_over: false };
        request.await
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(self: &Arc<Self>, expected: Expected, write: impl FnOnce(&mut Vec<u8>)) -> RedisResult<Place> {
        let (place, may_write, change, timer) = {
            let mut queue = self.queue();
            if queue.ended {
                return Err(broken());
            }
            write(&mut queue.unsent);
            queue.pace.expect(expected.count());
            let (place, may_write) = (queue.replies.expect(expected), queue.may_write());
            let timer = if may_write { None } else { queue.timer_of_the_rest() };
            (place, may_write, queue.change_of_reader(), timer)
        };
        wake(timer);
        if may_write {
            self.write();
        }
        if let Some(change) = change {
            self.make(change);
        }
        Ok(place)
    }

    /// Whether commands are to be written now. Those that are held back are left to the timer.
    fn may_write(&self) -> bool {
        let mut queue = self.queue();
        let may_write = queue.may_write();
        let timer = if may_write { None } else { queue.timer_of_the_rest() };
        drop(queue);
        wake(timer);
        may_write
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
                let driver = self.queue().driver().take();
                drop(contained(|| driver.map(Waker::wake)));
                return;
            }
            if !self.may_write() {
                return;
            }
        }
    }

    /// For everything but reading and writing. `None`: the connection has ended.
    fn with_socket<T>(&self, work: impl FnOnce(&mut Socket) -> T) -> Option<T> {
        let done = self.socket.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(work);
        // Of a caller that has found the mutex locked.
        if self.may_write() {
            self.write();
        }
        done
    }

    /// Writes what has been begun, and then the queue. Pending: there is a rest.
    fn poll_write(&self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<()> {
        ready!(socket.poll_write(cx));
        {
            let mut queue = self.queue();
            if !queue.may_write() {
                return Poll::Ready(());
            }
            let (now, under_way) = (clock::now(), queue.replies.under_way());
            queue.pace.write(now);
            queue.lending.wrote(now, under_way);
            mem::swap(&mut queue.unsent, &mut socket.out);
        }
        socket.poll_write(cx)
    }

    /// Reads replies, wakes the tasks that await them, and writes what was held back, until the connection
    /// ends. While it is lent to a guest, looks after that.
    pub(super) fn drive(self: Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        // Before the first poll, which does not come if the task is aborted at once.
        let end = EndOnDrop(self);
        async move {
            let conduit = &*end.0;
            let error = tokio::select! {
                biased;
                error = conduit.read_to_the_end() => error,
                never = conduit.write_what_is_held_back() => match never {},
            };
            conduit.end(&error);
        }
    }

    async fn read_to_the_end(&self) -> RedisError {
        self.queue().home_runtime = Handle::try_current().ok().map(|handle| handle.id());
        let mut woken = Vec::new();
        loop {
            match poll_fn(|cx| self.poll_drive(Reader::Home, &mut woken, cx)).await {
                Stop::Ended(error) => return error,
                Stop::Replaced => {
                    if let Err(error) = self.look_after().await {
                        return error;
                    }
                }
            }
        }
    }

    /// `woken`: empty, and kept for the next time.
    fn poll_drive(&self, reader: Reader, woken: &mut Vec<Waker>, cx: &mut Context<'_>) -> Poll<Stop> {
        loop {
            if let Some(stop) = ready!(self.poll_drive_once(reader, woken, cx)) {
                return Poll::Ready(stop);
            }
        }
    }

    /// `None`: there may be more to read or to write.
    fn poll_drive_once(
        &self,
        reader: Reader,
        woken: &mut Vec<Waker>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Stop>> {
        let driven = {
            let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(socket) = &mut *socket else { return Poll::Ready(Some(Stop::Ended(broken()))) };
            let attends = self.queue().attend(reader, cx.waker());
            match attends {
                Ok(former) => {
                    let read = self.poll_read(socket, woken, cx);
                    let is_full = self.poll_write(socket, cx).is_pending();
                    Some((read, is_full, socket.fault.clone(), former))
                }
                Err(Replaced) => None,
            }
        };
        let Some((read, is_full, fault, former)) = driven else {
            // A caller that found the socket's mutex locked relies on this look, too.
            if self.may_write() {
                self.write();
            }
            return Poll::Ready(Some(Stop::Replaced));
        };
        drop(former);
        for waker in woken.drain(..) {
            drop(contained(|| waker.wake()));
        }
        if let Some(error) = fault {
            return Poll::Ready(Some(Stop::Ended(error)));
        }
        // A caller that found the socket's mutex locked relies on this look. If the socket takes no more,
        // its own wake-up is enough.
        if read.is_pending() && (is_full || !self.may_write()) {
            return Poll::Pending;
        }
        Poll::Ready(None)
    }

    /// Reads once, and gives the replies to the requests. Nothing is read after a fault.
    fn poll_read(&self, socket: &mut Socket, woken: &mut Vec<Waker>, cx: &mut Context<'_>) -> Poll<()> {
        if socket.fault.is_some() {
            return Poll::Ready(());
        }
        let read = ready!(socket.reading.poll_read(&mut socket.stream, cx));
        let mut queue = self.queue();
        queue.pace.answered(socket.reading.values.len(), clock::now);
        queue.lending.has_read();
        let mut were_asked_for = true;
        for value in socket.reading.values.drain(..) {
            were_asked_for &= queue.replies.answer(value, woken);
        }
        socket.fault = match (were_asked_for, read) {
            (true, read) => read.err(),
            (false, _) => Some(unexpected()),
        };
        Poll::Ready(())
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
            woken.extend(queue.guest.take());
            queue.replies.end(|| error.clone(), &mut woken);
        }
        for waker in woken {
            drop(contained(|| waker.wake()));
        }
    }
}

/// The driver may also be aborted.
struct EndOnDrop(Arc<Conduit>);

impl Drop for EndOnDrop {
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
        if self.out.capacity() > LARGEST_KEPT {
            self.out = Vec::new();
        }
        self.out.clear();
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Conduit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conduit").finish_non_exhaustive()
    }
}

/// A waker is foreign code: not while a mutex is held.
fn wake(waker: Option<Waker>) {
    drop(contained(|| waker.map(Waker::wake)));
}

fn broken() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

fn unexpected() -> RedisError {
    io::Error::new(io::ErrorKind::InvalidData, "the server replied to nothing that it was asked").into()
}
