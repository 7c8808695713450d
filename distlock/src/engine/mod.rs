//! The state machine of one process's locks: no sockets, no clock, no executor.
//!
//! Events go in (acquire, cancel, release, replies, pushes, link changes, time), effects come out (commands
//! to send, requests to complete, holds to wake). The caller passes the time in with every event and carries
//! the effects out, in their order, after the call. It may do so on any thread: the state is sharded by key
//! behind mutexes that are held for one event only.
//!
//! Per key there is at most one *attempt* of this process on the server, on behalf of the first of its
//! waiters, who stand in a local queue, first in, first out; and the *leases* it has got: one for an exclusive
//! lock, one for each holder of a limited one, one for a group of readers that came together.
//!
//! The rules and their counterexamples are those of the protocol: time first (a passed deadline is a loss
//! before anything else is looked at), deadlines from the instant before a command was sent, "mine" may
//! extend but "fresh" while holding means that the lock was lost in between, a token is never reused, and
//! every token that may have been applied without being wanted is left (`leave`) until that was answered.

mod acquire_all;
mod attempt;
pub(crate) mod cell;
pub(crate) mod collection;
mod hold;
mod key;
mod lease;
mod pending;
mod release;
mod renewal;
mod shard;
#[cfg(test)]
pub(crate) mod sim;
#[cfg(test)]
mod tests;
mod waiters;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::LostReason;
use crate::protocol::server_clock::{ServerClock, Step};
use crate::protocol::{
    Clocks, Kind, LinkEvent, Op, OpError, OpResult, Push, Reply, ServerTime, Time, Token, Tuning, mutated,
};
use cell::{LeaseCell, Ticket};
use collection::KeyCollection;
use shard::Shard;

/// The longest claim: how long a grant lives that its receiver has not confirmed.
pub(crate) const LONGEST_CLAIM: Duration = Duration::from_secs(3);
/// How long a process may hand a lock on among its own tasks without asking the server.
pub(crate) const LOCAL_CHAIN_TIME: Duration = Duration::from_millis(50);
/// At most so many fencing tokens are reserved at once.
pub(crate) const MAX_FENCES: u32 = 1024;
/// An `enter` that was not answered for so long is sent again (it is idempotent).
pub(crate) const ACQUIRE_RESEND_AFTER: Duration = Duration::from_secs(1);

/// Whether a request keeps its lease alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Keep,
    Never,
}

/// How long a request waits for a lock that is held by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    /// Not at all: one attempt.
    Once,
    Until(Time),
    Forever,
}

/// A request for a lock, validated: `ttl` is at least 10 ms and whole milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) wait_limit: WaitLimit,
    /// How long the server may be out of reach before the request fails.
    pub(crate) unavailable_after: Duration,
    pub(crate) fenced: bool,
    /// So many may wait for the key in this process; whoever comes then is told that it is busy.
    pub(crate) max_waiters: Option<u32>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    /// One of several keys: `renewal`, `max_hold` and `min_hold` are those of [`Engine::begin`], later.
    pub(crate) collection: Option<Arc<KeyCollection>>,
    pub(crate) label: Cow<'static, str>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Acquired(Arc<LeaseCell>),
    Busy {
        holder: Option<Arc<str>>,
        waited: Duration,
    },
    Unavailable(OpError),
    WrongKind {
        found: Arc<str>,
    },
    Closed,
    /// Of several keys: not decided, because one before this was not acquired by the same command. Nothing of
    /// it is left.
    Skipped,
}

/// What a command was sent for; comes back with its result.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// `queues`: the command may leave an entry in the queue.
    Acquire { seq: u64, ttl: Duration, fences: u32, queues: bool },
    /// `deadline`: until when the lease was ours for certain. `until`: when nothing of it can be left.
    /// `keep_until`: the key is to stay taken until then.
    Release { sends: u32, deadline: Time, until: Time, keep_until: Option<Time> },
    /// `ticket`: the holder who asked for it.
    Renew { ticket: Option<Ticket>, ttl: Duration },
}

/// A command to send. `sent` is the instant before it is.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) sent: Time,
    pub(crate) purpose: Purpose,
}

/// What to do after an event. `W` stands for whoever made a request.
#[derive(Debug)]
pub(crate) enum Effect<W> {
    Send(Context, Op),
    /// One command for several keys; its results go to [`Engine::on_acquire_all_reply`].
    SendAcquireAll(Vec<(Context, Op)>),
    Done(W, Outcome),
    /// The hold has ended without a release: wake its listeners, tell the world.
    Lost(Arc<LeaseCell>, LostReason),
    Renewed(Arc<LeaseCell>),
}

/// What to do after an event, in this order.
#[derive(Debug)]
pub(crate) struct Effects<W> {
    pub(crate) list: Vec<Effect<W>>,
    /// Something is due earlier than [`Engine::next_due`] said: the driver must ask it again.
    pub(crate) rearm: bool,
}

impl<W> Effects<W> {
    fn join(&mut self, more: Effects<W>) {
        self.list.extend(more.list);
        self.rearm |= more.rearm;
    }
}

/// What the reply to a release or to an explicit extension means for whoever asked for it.
#[derive(Clone, Debug)]
pub(crate) enum Confirmation {
    /// Nobody asked.
    None,
    /// Done, or unconfirmed but harmless.
    Fine,
    /// The lock had been lost before.
    Lost(LostReason),
    /// Not answered; the release is pending, and sent again when the server can be reached.
    Failed(OpError),
}

/// The result of [`Engine::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Handed on in this process, nothing to wait for.
    HandedOn,
    /// A `leave` is among the effects; its reply is the confirmation.
    Sent,
    /// Lost before; a `leave` may be among the effects.
    WasLost(LostReason),
}

/// All keys of one manager.
#[derive(Debug)]
pub(crate) struct Engine<W> {
    shards: Vec<Mutex<Shard<W>>>,
    /// Keys are spread over the shards by it: in another way in every process, in the same way in every run of a
    /// simulation.
    seed: u64,
    server_clock: Mutex<ServerClock>,
    /// Replies are read from one clock, so that its steps can be seen.
    clocks: Clocks,
    /// The driver has been told to come back at this time, at the latest.
    armed: AtomicU64,
}

impl<W> Engine<W> {
    /// `client` is the `<client>` of this process's tokens; `seed` makes jitter differ between processes.
    pub(crate) fn new(client: &Arc<str>, tuning: &Tuning, shards: usize, seed: u64) -> Self {
        let count = u64::try_from(shards.max(1)).unwrap_or(1);
        let shards = (0..count)
            .map(|i| Mutex::new(Shard::new(client.clone(), tuning.clone(), i, count, seed)))
            .collect();
        Engine {
            shards,
            seed,
            server_clock: Mutex::new(ServerClock::default()),
            clocks: tuning.clocks,
            armed: AtomicU64::new(u64::MAX),
        }
    }

    /// A request. It ends with one `Done`, unless it is cancelled before.
    pub(crate) fn acquire(&self, now: Time, key: &Arc<str>, want: Want, waiter: W) -> (Ticket, Effects<W>) {
        self.enter(key, |shard, out| shard.acquire(now, key, want, waiter, out))
    }

    /// The request is not wanted any more. Without effect once it was completed.
    pub(crate) fn cancel(&self, now: Time, key: &Arc<str>, ticket: Ticket) -> Effects<W> {
        self.enter(key, |shard, out| shard.cancel(now, key, ticket, out)).1
    }

    /// The hold ends, by release or because its owner is gone.
    pub(crate) fn release(&self, now: Time, cell: &LeaseCell) -> (Release, Effects<W>) {
        self.enter(&cell.key, |shard, out| shard.release(now, cell, out))
    }

    /// All locks of a request for several keys are in hand: `renewal`, `max_hold` and `min_hold` of `want` count
    /// for this one from now on.
    pub(crate) fn begin(&self, now: Time, cell: &LeaseCell, want: &Want) -> Effects<W> {
        self.enter(&cell.key, |shard, out| shard.begin(now, cell, want, out)).1
    }

    /// Asks for the lease to end `ttl` from now, at the earliest. Later renewals use that ttl too, if it is
    /// the longer one. False: not held any more.
    pub(crate) fn extend(&self, now: Time, cell: &LeaseCell, ttl: Duration) -> (bool, Effects<W>) {
        self.enter(&cell.key, |shard, out| shard.extend(now, cell, ttl, out))
    }

    /// The key was taken away from whoever had it: if that was this process, its holder is to know at once.
    pub(crate) fn ask_whether_held(&self, now: Time, key: &Arc<str>) -> Effects<W> {
        self.enter(key, |shard, out| shard.ask_whether_held(now, key, out)).1
    }

    /// A command was answered, or failed.
    pub(crate) fn reply(&self, now: Time, context: Context, result: OpResult) -> (Confirmation, Effects<W>) {
        let stepped = self.step_seen(now, &context, &result);
        self.reply_after(now, stepped, context, result)
    }

    /// What a reply shows of the server's clock. Other threads may be here before that is allowed for.
    fn step_seen(&self, now: Time, context: &Context, result: &OpResult) -> Option<Step> {
        observed(result)
            .filter(|_| self.clocks == Clocks::One)
            .and_then(|server_time| lock(&self.server_clock).observe(server_time, context.sent, now))
    }

    fn reply_after(
        &self,
        now: Time,
        stepped: Option<Step>,
        mut context: Context,
        result: OpResult,
    ) -> (Confirmation, Effects<W>) {
        if let Some(Step::Before(by)) = stepped {
            // The server counts from before the step: what it grants ends that much earlier.
            context.sent = context.sent.before(by);
        }
        let mut effects = self.allow_for(now, stepped);
        let key = context.key.clone();
        let (confirmation, more) = self.enter(&key, |shard, out| shard.reply(now, context, result, out));
        effects.join(more);
        (confirmation, effects)
    }

    pub(crate) fn push(&self, now: Time, push: Push) -> Effects<W> {
        let (Push::Grant { key, .. } | Push::Gap { key, .. }) = &push;
        let key = key.clone();
        let mut effects = match &push {
            // Before the grant is believed: its age is counted on the server's clock.
            Push::Grant { server_time, .. } if self.clocks == Clocks::One => {
                let stepped = lock(&self.server_clock).received(*server_time, now);
                self.allow_for(now, stepped)
            }
            Push::Grant { .. } | Push::Gap { .. } => Effects { list: Vec::new(), rearm: false },
        };
        effects.join(self.enter(&key, |shard, out| shard.push(now, push, out)).1);
        effects
    }

    /// The server's clock was found to have been set.
    fn allow_for(&self, now: Time, stepped: Option<Step>) -> Effects<W> {
        match stepped {
            Some(Step::Forward(by)) => self.on_every_shard(|shard, out| shard.stepped(now, by, out)),
            Some(Step::Backward(_)) => {
                self.on_every_shard(|shard, out| shard.stepped(now, Duration::ZERO, out))
            }
            Some(Step::Before(_)) | None => Effects { list: Vec::new(), rearm: false },
        }
    }

    pub(crate) fn link(&self, now: Time, event: &LinkEvent) -> Effects<W> {
        if matches!(event, LinkEvent::Up { .. }) {
            lock(&self.server_clock).forget();
        }
        self.on_every_shard(|shard, out| shard.link(now, event, out))
    }

    /// Fires everything that is due.
    pub(crate) fn timer(&self, now: Time) -> Effects<W> {
        self.on_every_shard(|shard, out| shard.timer(now, out))
    }

    /// No more acquisitions: new and waiting requests end as `Closed`. Holders go on.
    pub(crate) fn close(&self, now: Time) -> Effects<W> {
        self.on_every_shard(|shard, out| shard.close(now, out))
    }

    /// Nobody renews, delivers pushes or fires timers any more: requests end as `Unavailable`, for good, and
    /// every hold is lost.
    pub(crate) fn fail(&self, now: Time, cause: &OpError) -> Effects<W> {
        self.on_every_shard(|shard, out| shard.fail(now, cause, out))
    }

    /// Every hold is lost, for `Shutdown`. Leases end when their holders let go, or by themselves.
    pub(crate) fn lose_all(&self, now: Time) -> Effects<W> {
        self.on_every_shard(|shard, out| shard.lose_all(now, out))
    }

    /// Holds, and releases that the server has not confirmed yet.
    pub(crate) fn outstanding(&self) -> Outstanding {
        let mut sum = Outstanding::default();
        for shard in &self.shards {
            let one = lock(shard).outstanding();
            sum.holds += one.holds;
            sum.pending_releases += one.pending_releases;
        }
        sum
    }

    /// The releases that the server has not confirmed.
    #[cfg(test)]
    pub(crate) fn pending_releases(&self) -> Vec<(Arc<str>, Token)> {
        self.shards.iter().flat_map(|shard| lock(shard).pending_releases()).collect()
    }

    /// Requests of this process that wait for `key`.
    pub(crate) fn waiting_here(&self, key: &Arc<str>) -> usize {
        lock(self.shard(key)).waiting(key)
    }

    /// When to call [`Engine::timer`] next, unless [`Effects::rearm`] says otherwise before.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.disarm();
        let due = (0..self.shards.len()).filter_map(|index| self.due_of(index)).min();
        self.arm(due);
        due
    }

    /// From now on every event that is due says so.
    fn disarm(&self) {
        if !mutated!(ArmedWhileChecking) {
            self.armed.store(u64::MAX, Ordering::SeqCst);
        }
    }

    fn due_of(&self, index: usize) -> Option<Time> {
        lock(&self.shards[index]).next_due()
    }

    #[cfg(test)]
    pub(crate) fn knows(&self, key: &Arc<str>, token: Token) -> bool {
        lock(self.shard(key)).knows(key, token)
    }

    /// For how many keys there is room.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).room()).sum()
    }

    #[cfg(test)]
    pub(crate) fn rest(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).rest()).sum()
    }

    fn arm(&self, due: Option<Time>) -> bool {
        due.is_some_and(|due| {
            due.0 < self.armed.load(Ordering::SeqCst) && due.0 < self.armed.fetch_min(due.0, Ordering::SeqCst)
        })
    }

    fn shard(&self, key: &Arc<str>) -> &Mutex<Shard<W>> {
        let count = u64::try_from(self.shards.len()).unwrap_or(1);
        let mut hasher = DefaultHasher::new();
        (self.seed, key).hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % count).unwrap_or(0);
        &self.shards[index]
    }

    fn enter<R>(
        &self,
        key: &Arc<str>,
        event: impl FnOnce(&mut Shard<W>, &mut Vec<Effect<W>>) -> R,
    ) -> (R, Effects<W>) {
        let mut list = Vec::new();
        let mut shard = lock(self.shard(key));
        let result = event(&mut shard, &mut list);
        let rearm = self.arm(shard.next_due());
        (result, Effects { list, rearm })
    }

    fn on_every_shard(&self, mut event: impl FnMut(&mut Shard<W>, &mut Vec<Effect<W>>)) -> Effects<W> {
        let mut effects = Effects { list: Vec::new(), rearm: false };
        for shard in &self.shards {
            let mut shard = lock(shard);
            event(&mut shard, &mut effects.list);
            effects.rearm |= self.arm(shard.next_due());
        }
        effects
    }
}

/// What [`Engine::outstanding`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outstanding {
    pub(crate) holds: usize,
    pub(crate) pending_releases: usize,
}

/// A panic while a mutex is held cannot leave a half-done event that matters more than going on: no code of
/// others runs under it, so it would be a mistake of ours, and what was forgotten by it ends by deadlines.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn observed(result: &OpResult) -> Option<ServerTime> {
    match result {
        Ok(
            Reply::Acquired { server_time, .. }
            | Reply::AlreadyHeld { server_time, .. }
            | Reply::Busy { server_time, .. },
        ) => *server_time,
        Ok(Reply::Renewed { server_time }) => Some(*server_time),
        _ => None,
    }
}
