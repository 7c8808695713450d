//! The task that reads replies on the callers' runtime, and the checks of the I/O thread meanwhile.
//! [`ReaderPolicy`](super::reader_policy::ReaderPolicy) decides which of them reads.
//!
//! Rule: the socket changes its runtime, and with it its reader, only while its mutex is held.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use redis::RedisResult;
use tokio::runtime::{Handle, Id};
use tokio::time::{MissedTickBehavior, interval};

use super::on_ready::OnReady;
use super::reader_policy::{CHECK_INTERVAL, Change, Generation, ReceiveBuffer};
use super::{Connection, Queue, broken, wake};
use crate::contained::contained;
use distlock_store::clock;
use distlock_store::kit::sync::Locked;

/// On systems other than Unix, a socket cannot leave its runtime. Tokio reports a runtime without an I/O driver only by
/// a panic, which ends the process if panics do not unwind.
const MOVES_SOCKETS: bool = cfg!(unix) && cfg!(panic = "unwind");

/// The runtimes that have an I/O driver, as the program has declared. There is no way to ask a runtime: tokio panics if
/// a socket is registered with a runtime without an I/O driver. Even a caught panic runs the program's panic hook,
/// which may end the process. So no other runtime gets a socket.
static WITH_IO: Locked<Vec<Id>> = Locked::new(Vec::new());
/// A program has few runtimes, so only the latest ones are remembered.
const MAX_WITH_IO: usize = 64;

/// Declares that the current runtime, if there is one, has an I/O driver.
pub(crate) fn this_runtime_has_io() {
    let Ok(here) = Handle::try_current() else { return };
    let mut known = WITH_IO.lock();
    if !known.contains(&here.id()) {
        if known.len() >= MAX_WITH_IO {
            known.remove(0);
        }
        known.push(here.id());
    }
}

fn has_io(runtime: Id) -> bool {
    WITH_IO.lock().contains(&runtime)
}

impl Queue {
    /// The change of reader for a request that is sent on this thread.
    pub(super) fn change_of_reader(&mut self) -> Option<Change> {
        let (io_runtime, in_flight) = (self.io_runtime, self.replies.in_flight());
        let here =
            || Some(Handle::try_current().ok()?.id()).filter(|id| MOVES_SOCKETS && io_runtime != Some(*id));
        match self.reader_policy.sent(in_flight, here)? {
            Change::Start(generation) if !here().is_some_and(has_io) => {
                // Its backoff makes this check of the runtime rare.
                self.reader_policy.ended(generation);
                None
            }
            change => Some(change),
        }
    }
}

impl Connection {
    /// Executes the change for a request that was sent on this thread.
    pub(super) fn make(self: &Arc<Self>, change: Change) {
        match change {
            Change::Start(generation) => {
                let reader = CallerReader { connection: Arc::clone(self), generation };
                // If the runtime is ending, this drops the reader.
                drop(Handle::try_current().map(|here| here.spawn(reader.read())));
            }
            Change::Recall => self.wake_io_thread(),
        }
    }

    fn wake_io_thread(&self) {
        let waker = self.queue.lock().io_waker.take();
        wake(waker);
    }

    fn reader_ended(&self, generation: Generation) {
        if self.queue.lock().reader_policy.ended(generation) {
            self.wake_io_thread();
        }
    }

    /// Registers the socket with the current runtime, which is the runtime of this reader. `false`: the reader must not
    /// read.
    fn register(&self, generation: Generation) -> bool {
        if !self.queue.lock().reader_policy.may_register(generation, clock::now()) {
            return false;
        }
        let Some(Ok(duplicate)) = self.with_socket(|socket| socket.stream.duplicate()) else { return false };
        // This panics if the program's declaration about its runtime was wrong.
        let Ok(Ok(registered)) = contained(|| duplicate.register()) else { return false };
        let is_reader = self.with_socket(|socket| {
            let is_reader = self.queue.lock().reader_policy.registered(generation);
            if is_reader && let Err(fault) = socket.stream.move_to(registered) {
                socket.fault.get_or_insert_with(|| fault.into());
            }
            is_reader
        });
        // The I/O thread must check the reader from now on.
        self.wake_io_thread();
        is_reader == Some(true)
    }

    /// Runs on the I/O thread while the callers' runtime reads. Returns when the socket has been taken back.
    pub(super) async fn check_caller_reader(&self) -> RedisResult<()> {
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is due immediately.
        checks.tick().await;
        while !self.queue.lock().reader_policy.is_recalled() {
            let is_due = {
                let mut check = pin!(checks.tick());
                poll_fn(|cx| {
                    let former = self.queue.lock().io_waker.replace(cx.waker().clone());
                    drop(former);
                    if self.queue.lock().reader_policy.is_recalled() {
                        return Poll::Ready(false);
                    }
                    check.as_mut().poll(cx).map(|_| true)
                })
                .await
            };
            if is_due {
                self.check()?;
            }
        }
        Ok(self.take_back()?)
    }

    fn check(&self) -> RedisResult<()> {
        let unread = self.with_socket(|socket| socket.stream.has_unread()).ok_or_else(broken)?;
        let buffer = if unread { ReceiveBuffer::Unread } else { ReceiveBuffer::Empty };
        let mut queue = self.queue.lock();
        let in_flight = queue.replies.in_flight();
        queue.reader_policy.check(buffer, in_flight);
        Ok(())
    }

    fn take_back(&self) -> io::Result<()> {
        let taken_back: Option<io::Result<_>> = self.with_socket(|socket| {
            let former = socket.stream.take_back()?;
            let mut queue = self.queue.lock();
            queue.reader_policy.taken_back(clock::now());
            Ok((former, queue.caller_waker.take()))
        });
        // The socket is dropped and the reader is woken while no mutex is held. The reader then finds that it was
        // replaced.
        let Some((_former, reader)) = taken_back.transpose()? else { return Ok(()) };
        wake(reader);
        Ok(())
    }
}

/// Its runtime may drop it at any moment.
struct CallerReader {
    connection: Arc<Connection>,
    generation: Generation,
}

impl CallerReader {
    async fn read(self) {
        if self.connection.made_in.is_another() || !self.connection.register(self.generation) {
            return;
        }
        let reads = OnReady::new(&self.connection, self.generation);
        poll_fn(|cx| reads.poll(cx)).await;
    }
}

impl Drop for CallerReader {
    fn drop(&mut self) {
        // In a forked process, the mutexes may be locked by a thread that does not exist there.
        if !self.connection.made_in.is_another() {
            self.connection.reader_ended(self.generation);
        }
    }
}
