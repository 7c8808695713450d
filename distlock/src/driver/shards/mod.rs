//! All keys of one manager: machines behind mutexes, each of which is held for one event only, and what the
//! machines have in common.
//!
//! An event may come from any thread. Its effects are carried out after the call, in their order.

mod accounts;
mod acquire_all;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::alarm::Alarm;
use crate::engine::{Answer, Confirmation, Context, EffectList, Machine, Outstanding, Release, Want};
use crate::lease_cell::{LeaseCell, Ticket};
#[cfg(test)]
use crate::protocol::Token;
use crate::protocol::{Clocks, LinkEvent, Notice, Push, StoreError, Time, Tuning};
use distlock_store::engine::{ClockOffset, Step};

pub(crate) use acquire_all::BatchAnswer;

/// What to do after an event, in this order.
#[derive(Debug)]
pub(crate) struct Effects<W> {
    pub(crate) list: EffectList<W>,
    /// Something is due earlier than [`Shards::next_due`] returned: the driver must call it again.
    pub(crate) rearm: bool,
}

impl<W> Default for Effects<W> {
    fn default() -> Self {
        Effects { list: EffectList::default(), rearm: false }
    }
}

impl<W> Effects<W> {
    pub(crate) fn join(&mut self, more: Effects<W>) {
        self.list.append(more.list);
        self.rearm |= more.rearm;
    }
}

/// All keys of one manager.
#[derive(Debug)]
pub(crate) struct Shards<W> {
    shards: Vec<Mutex<Machine<W>>>,
    /// The seed of the hash that spreads keys over shards: another in every process, the same in every run of
    /// a simulation.
    seed: u64,
    server_clock: Mutex<ClockOffset>,
    /// Whether all replies are read from one clock, so that its steps can be detected.
    clocks: Clocks,
    /// When the driver will next check what is due.
    pub(crate) alarm: Alarm,
}

impl<W> Shards<W> {
    /// `client` is the `<client>` of this process's tokens; `seed` makes jitter differ between processes.
    pub(crate) fn new(client: &Arc<str>, tuning: &Tuning, shards: usize, seed: u64) -> Self {
        let count = u64::try_from(shards.max(1)).unwrap_or(1);
        let shards = (0..count)
            .map(|i| Mutex::new(Machine::new(client.clone(), tuning.clone(), i, count, seed)))
            .collect();
        Shards {
            shards,
            seed,
            server_clock: Mutex::new(ClockOffset::default()),
            clocks: tuning.clocks,
            alarm: Alarm::new(),
        }
    }

    /// A request. It ends with one `Done`, unless it is cancelled before.
    pub(crate) fn acquire(&self, now: Time, key: &Arc<str>, want: Want, waiter: W) -> (Ticket, Effects<W>) {
        self.enter(key, |machine, out| machine.acquire(now, key, want, waiter, out))
    }

    /// Cancels a request. No effect if it was completed.
    pub(crate) fn cancel(&self, now: Time, key: &Arc<str>, ticket: Ticket) -> Effects<W> {
        // Who has waited is dropped outside of the mutex: it may be the last one that keeps the manager alive.
        self.enter(key, |machine, out| machine.cancel(now, key, ticket, out)).1
    }

    /// The hold ends: it is released, or its owner was dropped.
    pub(crate) fn release(&self, now: Time, cell: &LeaseCell) -> (Release, Effects<W>) {
        self.enter(&cell.key, |machine, out| machine.release(now, cell, out))
    }

    /// All locks of a request for several keys are acquired: `renewal`, `max_hold` and `min_hold` of `want`
    /// count for this one from now on.
    pub(crate) fn begin(&self, now: Time, cell: &LeaseCell, want: &Want) -> Effects<W> {
        self.enter(&cell.key, |machine, out| machine.begin(now, cell, want, out)).1
    }

    /// Asks for the lease to last at least `ttl` from now. Later renewals use that ttl too, if it is the
    /// longer one. False: not held any more.
    pub(crate) fn extend(&self, now: Time, cell: &LeaseCell, ttl: Duration) -> (bool, Effects<W>) {
        self.enter(&cell.key, |machine, out| machine.extend(now, cell, ttl, out))
    }

    /// The key was taken away from its holder. If a task of this process holds it, that task has to learn so
    /// at once.
    pub(crate) fn ask_whether_held(&self, now: Time, key: &Arc<str>) -> Effects<W> {
        self.enter(key, |machine, out| machine.ask_whether_held(now, key, out)).1
    }

    /// A command was answered, or failed.
    pub(crate) fn reply(&self, now: Time, context: Context, answer: Answer) -> (Confirmation, Effects<W>) {
        let stepped = self.step_seen(now, &context, &answer);
        self.reply_after(now, stepped, context, answer)
    }

    /// What a reply shows about the server's clock. Until leases were shortened accordingly, other threads
    /// may get here.
    pub(crate) fn step_seen(&self, now: Time, context: &Context, answer: &Answer) -> Option<Step> {
        let server_time = answer.server_time().filter(|_| self.clocks == Clocks::One)?;
        lock(&self.server_clock).observe(server_time, context.sent, now)
    }

    pub(crate) fn reply_after(
        &self,
        now: Time,
        stepped: Option<Step>,
        mut context: Context,
        answer: Answer,
    ) -> (Confirmation, Effects<W>) {
        if let Some(Step::Before(by)) = stepped {
            // The server has counted from before the step: what it grants ends earlier by that much.
            context.sent = context.sent.before(by);
        }
        let before = stepped.map(|step| self.allow_for(now, step));
        let key = context.key.clone();
        let (confirmation, effects) =
            self.enter(&key, |machine, out| machine.reply(now, context, answer, out));
        (confirmation, joined(before, effects))
    }

    pub(crate) fn push(&self, now: Time, push: Push) -> Effects<W> {
        let key = push.key().clone();
        let stepped = match &push {
            // Before the grant is believed: its age is counted on the server's clock.
            Push::Grant { server_time, .. } if self.clocks == Clocks::One => {
                lock(&self.server_clock).received(*server_time, now)
            }
            Push::Grant { .. } | Push::Gap { .. } | Push::Wanted { .. } => None,
        };
        let before = stepped.map(|step| self.allow_for(now, step));
        joined(before, self.enter(&key, |machine, out| machine.push(now, push, out)).1)
    }

    pub(crate) fn notice(&self, now: Time, notice: &Notice) -> Effects<W> {
        let (Notice::Free { key } | Notice::Unproven { key, .. }) = notice;
        self.enter(key, |machine, out| machine.notice(now, notice, out)).1
    }

    /// The session has ended and reports that itself: every lease has ended with it.
    pub(crate) fn session_lost(&self, now: Time) -> Effects<W> {
        self.on_every_shard(|machine, out| machine.session_lost(now, out))
    }

    /// Adjusts leases to a step of the server's clock.
    fn allow_for(&self, now: Time, step: Step) -> Effects<W> {
        match step {
            Step::Forward(by) => self.on_every_shard(|machine, out| machine.stepped(now, by, out)),
            Step::Backward(_) => {
                self.on_every_shard(|machine, out| machine.stepped(now, Duration::ZERO, out))
            }
            Step::Before(_) => Effects::default(),
        }
    }

    pub(crate) fn link(&self, now: Time, event: &LinkEvent) -> Effects<W> {
        if matches!(event, LinkEvent::Up { .. }) {
            lock(&self.server_clock).forget();
        }
        self.on_every_shard(|machine, out| machine.link(now, event, out))
    }

    /// Fires everything that is due.
    pub(crate) fn timer(&self, now: Time) -> Effects<W> {
        self.on_every_shard(|machine, out| machine.timer(now, out))
    }

    /// Refuses all acquisitions from now on: new and waiting requests end as `Closed`. Holders keep their
    /// leases.
    pub(crate) fn close(&self, now: Time) -> Effects<W> {
        self.on_every_shard(|machine, out| machine.close(now, out))
    }

    /// From now on nothing renews leases, delivers pushes or fires timers: all requests, also later ones, end
    /// as `Unavailable`, and every hold is lost.
    pub(crate) fn fail(&self, now: Time, cause: &StoreError) -> Effects<W> {
        self.on_every_shard(|machine, out| machine.fail(now, cause, out))
    }

    /// Every hold is lost with the reason `Shutdown`. Leases end when their holders release them, or with
    /// their ttl.
    pub(crate) fn lose_all(&self, now: Time) -> Effects<W> {
        self.on_every_shard(|machine, out| machine.lose_all(now, out))
    }

    pub(crate) fn has_leases(&self, key: &Arc<str>) -> bool {
        lock(self.shard(key)).has_leases(key)
    }

    pub(crate) fn lose_key(&self, now: Time, key: &Arc<str>) -> Effects<W> {
        self.enter(key, |machine, out| machine.lose_key(now, key, out)).1
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

    /// The number of requests of this process that wait for `key`.
    pub(crate) fn waiting_here(&self, key: &Arc<str>) -> usize {
        lock(self.shard(key)).waiting(key)
    }

    pub(crate) fn waiting_behind_others(&self, key: &Arc<str>) -> Option<usize> {
        lock(self.shard(key)).waiting_behind_others(key)
    }

    /// When to call [`Shards::timer`] next, unless [`Effects::rearm`] says otherwise before.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.alarm.disarm();
        let due = (0..self.shards.len()).filter_map(|index| self.due_of(index)).min();
        self.alarm.arm(due);
        due
    }

    pub(crate) fn due_of(&self, index: usize) -> Option<Time> {
        lock(&self.shards[index]).next_due()
    }

    #[cfg(test)]
    pub(crate) fn knows(&self, key: &Arc<str>, token: Token) -> bool {
        lock(self.shard(key)).knows(key, token)
    }

    /// All holds: by key, and those of one key in the order in which they were asked for.
    #[cfg(test)]
    pub(crate) fn cells(&self) -> Vec<Arc<LeaseCell>> {
        let mut cells: Vec<_> = self.shards.iter().flat_map(|shard| lock(shard).cells()).collect();
        cells.sort_by_key(|cell| (cell.key.clone(), cell.ticket));
        cells
    }

    /// For how many keys memory is reserved.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).room()).sum()
    }

    #[cfg(test)]
    pub(crate) fn rest(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).rest()).sum()
    }

    fn shard(&self, key: &Arc<str>) -> &Mutex<Machine<W>> {
        let count = u64::try_from(self.shards.len()).unwrap_or(1);
        let mut hasher = DefaultHasher::new();
        (self.seed, key).hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % count).unwrap_or(0);
        &self.shards[index]
    }

    fn enter<R>(
        &self,
        key: &Arc<str>,
        event: impl FnOnce(&mut Machine<W>, &mut EffectList<W>) -> R,
    ) -> (R, Effects<W>) {
        let mut list = EffectList::default();
        let mut shard = lock(self.shard(key));
        let result = event(&mut shard, &mut list);
        let rearm = self.alarm.arm(shard.next_due());
        (result, Effects { list, rearm })
    }

    fn on_every_shard(&self, mut event: impl FnMut(&mut Machine<W>, &mut EffectList<W>)) -> Effects<W> {
        let mut effects = Effects::default();
        for shard in &self.shards {
            let mut shard = lock(shard);
            event(&mut shard, &mut effects.list);
            effects.rearm |= self.alarm.arm(shard.next_due());
        }
        effects
    }
}

fn joined<W>(before: Option<Effects<W>>, effects: Effects<W>) -> Effects<W> {
    match before {
        None => effects,
        Some(mut all) => {
            all.join(effects);
            all
        }
    }
}

/// Ignores poisoning. No foreign code runs while a mutex is held, so a panic there would be a bug of ours.
/// Going on with a half-applied event is safe, because deadlines end what it forgot, and better than failing
/// every later operation.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
