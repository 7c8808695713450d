//! Which task reads the replies of a connection: the driver on the I/O thread, or a task on the callers' runtime.
//!
//! A reply that the I/O thread reads takes two wake-ups: the I/O thread's, and the caller's. A reply that the callers'
//! runtime reads takes one wake-up, and one thread handles all replies that arrive together, without a switch. With
//! several hundred requests in flight, many requests share these costs, and the I/O thread is an additional thread that
//! works. But a runtime of the program may be busy or blocked, or it may end. So the callers' runtime reads only while
//! its requests follow each other quickly, and only after it has polled its reader. The I/O thread takes the socket
//! back in any of these cases: a request comes from another thread, too many requests are in flight, requests are slow
//! or have ended, or a reply has stayed unread between two checks.
//!
//! Plain values in this file decide all of this. `R` names a runtime.

use std::time::Duration;

use distlock_store::engine::Time;

#[cfg(test)]
#[path = "reader_policy_tests.rs"]
mod tests;

/// How often the I/O thread checks a reader on the callers' runtime. A reply stays unread for two intervals at most.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// A write is quick if the one before it is no older than this …
const MAX_WRITE_GAP: Duration = Duration::from_millis(5);
/// … and no more requests are in flight than this.
const MAX_IN_FLIGHT_TO_START: usize = 128;
/// With more requests in flight than this, the I/O thread takes the socket back.
const MAX_IN_FLIGHT: usize = 192;
/// How many quick writes in a row start a reader on the callers' runtime, if the last one was worth its two moves.
const MIN_QUICK_WRITES: u32 = 32;
/// A reader was worth its two moves if at least this many writes were made meanwhile.
const WRITES_WORTH_MOVING: u32 = 256;
/// The I/O thread takes the socket back after this many writes in a row that were not quick …
const MAX_SLOW_WRITES: u32 = 4;
/// … and after this many checks in a row without a request.
const MAX_IDLE_CHECKS: u32 = 3;
/// How long the callers' runtime does not read after it has left a reply unread.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// Each reader in a row that was not worth its moves doubles both minimums, at most this many times.
const MAX_DOUBLINGS: u32 = 6;

/// Identifies a reader on the callers' runtimes, because a reader that was replaced must do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Generation(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reader {
    IoThread,
    Caller(Generation),
}

#[cfg(test)]
pub(super) const A_CALLER: Reader = Reader::Caller(Generation(0));

/// Whether bytes wait in the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReceiveBuffer {
    Empty,
    Unread,
}

/// The task for the sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Start this reader on the current runtime.
    Start(Generation),
    /// Wake the I/O thread, which must take the socket back.
    Recall,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReaderPolicy<R> {
    state: ReaderState<R>,
    /// The generation of the last reader that was started.
    generation: u64,
    last_write: Time,
    /// The number of quick writes in a row.
    quick_writes: u32,
    /// No reader is started before this time.
    backoff_end: Time,
    /// The number of readers in a row that were not worth their moves.
    failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ReaderState<R> {
    IoThread,
    /// The I/O thread reads until this reader has registered the socket with its runtime.
    Starting {
        generation: Generation,
        runtime: R,
        since: Time,
    },
    Caller(Caller<R>),
}

/// The callers' runtime reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Caller<R> {
    generation: Generation,
    runtime: R,
    writes: u32,
    slow_writes: u32,
    /// The last check found bytes, and none were read since then.
    unread: bool,
    idle_checks: u32,
    recall: Option<Recall>,
}

/// The reason why the I/O thread takes the socket back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Recall {
    /// A reply was not read in time.
    Late,
    /// The reader has no more advantage, or it has ended.
    NoGain,
}

impl<R> Default for ReaderPolicy<R> {
    fn default() -> ReaderPolicy<R> {
        ReaderPolicy {
            state: ReaderState::IoThread,
            generation: 0,
            last_write: Time(0),
            quick_writes: 0,
            backoff_end: Time(0),
            failures: 0,
        }
    }
}

impl<R: Copy + Eq> ReaderPolicy<R> {
    pub(super) fn reader(&self) -> Reader {
        match &self.state {
            ReaderState::IoThread | ReaderState::Starting { .. } => Reader::IoThread,
            ReaderState::Caller(caller) => Reader::Caller(caller.generation),
        }
    }

    /// Sets the state after many quick writes.
    #[cfg(test)]
    pub(super) fn skip_to_start(&mut self) {
        (self.quick_writes, self.backoff_end) = (self.quick_writes_to_start(), Time(0));
    }

    fn quick_writes_to_start(&self) -> u32 {
        MIN_QUICK_WRITES << self.failures
    }

    /// Requests were written, and this many are in flight.
    pub(super) fn wrote(&mut self, now: Time, in_flight: usize) {
        let is_quick = now.duration_since(self.last_write) <= MAX_WRITE_GAP;
        self.last_write = now;
        match &mut self.state {
            ReaderState::IoThread | ReaderState::Starting { .. } => {
                let counts = is_quick && in_flight <= MAX_IN_FLIGHT_TO_START;
                self.quick_writes = if counts { self.quick_writes.saturating_add(1) } else { 0 };
            }
            ReaderState::Caller(caller) => {
                caller.writes = caller.writes.saturating_add(1);
                caller.idle_checks = 0;
                caller.slow_writes = if is_quick { 0 } else { caller.slow_writes.saturating_add(1) };
                if caller.slow_writes >= MAX_SLOW_WRITES {
                    caller.recall(Recall::NoGain);
                }
            }
        }
    }

    /// A task sends a request. `runtime` is the runtime of the task. `None`: this runtime cannot read.
    pub(super) fn sent(&mut self, in_flight: usize, runtime: impl FnOnce() -> Option<R>) -> Option<Change> {
        let may_start =
            self.quick_writes >= self.quick_writes_to_start() && self.last_write >= self.backoff_end;
        match &mut self.state {
            ReaderState::IoThread if may_start => {
                self.quick_writes = 0;
                let runtime = runtime()?;
                self.generation += 1;
                let generation = Generation(self.generation);
                self.state = ReaderState::Starting { generation, runtime, since: self.last_write };
                Some(Change::Start(generation))
            }
            ReaderState::Caller(caller) if in_flight > MAX_IN_FLIGHT || runtime() != Some(caller.runtime) => {
                caller.recall(Recall::NoGain)
            }
            ReaderState::IoThread | ReaderState::Starting { .. } | ReaderState::Caller(_) => None,
        }
    }

    /// Whether a reader that its runtime has polled may register the socket there. A runtime that took longer for this
    /// poll than a reply may stay unread does not get the socket.
    pub(super) fn may_register(&self, generation: Generation, now: Time) -> bool {
        self.starting(generation).is_some_and(|(_, since)| now.duration_since(since) <= 2 * CHECK_INTERVAL)
    }

    /// The runtime of this reader, and when it was asked to register the socket.
    fn starting(&self, generation: Generation) -> Option<(R, Time)> {
        match self.state {
            ReaderState::Starting { generation: starting, runtime, since } if starting == generation => {
                Some((runtime, since))
            }
            ReaderState::IoThread | ReaderState::Starting { .. } | ReaderState::Caller(_) => None,
        }
    }

    /// The socket is registered with the reader's runtime. `false`: the reader has been replaced.
    pub(super) fn registered(&mut self, generation: Generation) -> bool {
        let Some((runtime, _)) = self.starting(generation) else { return false };
        self.state = ReaderState::Caller(Caller::new(generation, runtime));
        true
    }

    /// The reader no longer reads. `true`: the I/O thread must take the socket back.
    pub(super) fn ended(&mut self, generation: Generation) -> bool {
        if self.starting(generation).is_some() {
            // It was polled too late, could not register the socket, or its runtime has ended.
            self.state = ReaderState::IoThread;
            self.back_off(self.last_write);
        }
        let ReaderState::Caller(caller) = &mut self.state else { return false };
        if caller.generation == generation {
            caller.recall(Recall::NoGain);
        }
        caller.generation == generation
    }

    /// Replies were read.
    pub(super) fn has_read(&mut self) {
        if let ReaderState::Caller(caller) = &mut self.state {
            caller.unread = false;
        }
    }

    /// The check of the I/O thread, every [`CHECK_INTERVAL`].
    pub(super) fn check(&mut self, buffer: ReceiveBuffer, in_flight: usize) {
        let ReaderState::Caller(caller @ Caller { recall: None, .. }) = &mut self.state else { return };
        let unread = buffer == ReceiveBuffer::Unread;
        if unread && caller.unread {
            caller.recall(Recall::Late);
        }
        caller.unread = unread;
        caller.idle_checks = if in_flight == 0 { caller.idle_checks.saturating_add(1) } else { 0 };
        if caller.idle_checks >= MAX_IDLE_CHECKS {
            caller.recall(Recall::NoGain);
        }
    }

    /// Whether the I/O thread must take the socket back.
    pub(super) fn is_recalled(&self) -> bool {
        matches!(&self.state, ReaderState::Caller(Caller { recall: Some(_), .. }))
    }

    /// The I/O thread has taken the socket back.
    pub(super) fn taken_back(&mut self, now: Time) {
        let ReaderState::Caller(caller) = std::mem::replace(&mut self.state, ReaderState::IoThread) else {
            return;
        };
        self.quick_writes = 0;
        match caller.recall {
            Some(Recall::Late) => self.back_off(now),
            _ if caller.writes >= WRITES_WORTH_MOVING => self.failures = 0,
            _ => self.count_failure(),
        }
    }

    fn back_off(&mut self, now: Time) {
        self.backoff_end = now.after(MIN_BACKOFF * (1 << self.failures));
        self.count_failure();
    }

    fn count_failure(&mut self) {
        self.failures = (self.failures + 1).min(MAX_DOUBLINGS);
    }
}

impl<R> Caller<R> {
    fn new(generation: Generation, runtime: R) -> Caller<R> {
        Caller { generation, runtime, writes: 0, slow_writes: 0, unread: false, idle_checks: 0, recall: None }
    }

    /// The first reason counts.
    fn recall(&mut self, why: Recall) -> Option<Change> {
        if self.recall.is_some() {
            return None;
        }
        self.recall = Some(why);
        Some(Change::Recall)
    }
}
