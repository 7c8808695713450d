//! All keys of one manager: machines behind mutexes, and the common state of the machines. A mutex is held for one
//! event only.
//!
//! An event may come from any thread. Its effects are executed after the call, in their order.

mod accounts;
mod acquire_all;

use std::sync::Arc;
use std::time::Duration;

use super::alarm::Alarm;
use crate::engine::{Answer, Confirmation, Context, EffectList, KeyHash, KeyHasher, Machine, Outcome, Step};
#[cfg(test)]
use crate::lease_cell::LeaseCell;
#[cfg(test)]
use crate::protocol::Token;
use crate::protocol::{Clocks, LinkEvent, Push, Time, Tuning};
use distlock_store::engine::{ClockOffset, Step as ClockStep};
use distlock_store::kit::sync::Locked;

pub(crate) use acquire_all::BatchAnswer;

/// The effects of an event, in the order of their execution.
#[derive(Debug)]
pub(crate) struct Effects<W> {
    pub(crate) list: EffectList<W>,
    /// A timer is due earlier than [`Shards::next_due`] returned, so the driver must call it again.
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
    shards: Vec<Locked<Machine<W>>>,
    /// Spreads keys over shards. Its seed differs in every process, and is the same in every run of a simulation.
    hasher: KeyHasher,
    server_clock: Locked<ClockOffset>,
    /// Whether all replies are read from one clock, so that its steps can be detected.
    clocks: Clocks,
    /// The time of the driver's next check of the timers.
    pub(crate) alarm: Alarm,
}

impl<W> Shards<W> {
    /// `client` is the `<client>` of this process's tokens. `seed` makes jitter differ between processes.
    pub(crate) fn new(client: &Arc<str>, tuning: &Tuning, shards: usize, seed: u64) -> Self {
        let count = u64::try_from(shards.max(1)).unwrap_or(1);
        let shards = (0..count)
            .map(|i| Locked::new(Machine::new(client.clone(), tuning.clone(), i, count, seed)))
            .collect();
        Shards {
            shards,
            hasher: KeyHasher::new(seed),
            server_clock: Locked::new(ClockOffset::default()),
            clocks: tuning.clocks,
            alarm: Alarm::new(),
        }
    }

    /// A command got its reply, or failed.
    pub(crate) fn reply(&self, now: Time, context: Context, answer: Answer) -> (Confirmation, Effects<W>) {
        let stepped = self.step_seen(now, &context, &answer);
        self.reply_after(now, stepped, context, answer)
    }

    /// The clock step that a reply shows. Other threads may get here before leases were shortened accordingly.
    pub(crate) fn step_seen(&self, now: Time, context: &Context, answer: &Answer) -> Option<ClockStep> {
        let server_time = answer.server_time().filter(|_| self.clocks == Clocks::One)?;
        self.server_clock.lock().observe(server_time, context.sent, now)
    }

    pub(crate) fn reply_after(
        &self,
        now: Time,
        stepped: Option<ClockStep>,
        mut context: Context,
        answer: Answer,
    ) -> (Confirmation, Effects<W>) {
        if let Some(ClockStep::Before(by)) = stepped {
            // The server has counted from before the step, so its grant ends earlier by that time.
            context.sent = context.sent.before(by);
        }
        let before = stepped.map(|step| self.allow_for(now, step));
        let (confirmation, effects) = self.on_key(now, &context.key, |step| step.on_reply(&context, answer));
        (confirmation, joined(before, effects))
    }

    pub(crate) fn push(&self, now: Time, push: &Push) -> Effects<W> {
        let stepped = match push {
            // Comes before the grant is accepted, because its age is counted on the server's clock.
            Push::Grant { server_time, .. } if self.clocks == Clocks::One => {
                self.server_clock.lock().received(*server_time, now)
            }
            Push::Grant { .. } | Push::Gap { .. } | Push::Wanted { .. } => None,
        };
        let before = stepped.map(|step| self.allow_for(now, step));
        joined(before, self.on_key(now, push.key(), |step| step.on_push(push)).1)
    }

    /// Adjusts leases to a step of the server's clock.
    fn allow_for(&self, now: Time, step: ClockStep) -> Effects<W> {
        let by = match step {
            ClockStep::Forward(by) => by,
            ClockStep::Backward(_) => Duration::ZERO,
            ClockStep::Before(_) => return Effects::default(),
        };
        self.on_every_key(now, |step| step.clock_stepped(by))
    }

    pub(crate) fn link(&self, now: Time, event: &LinkEvent) -> Effects<W> {
        if matches!(event, LinkEvent::Up { .. }) {
            self.server_clock.lock().forget();
        }
        self.on_every_machine(|machine, out| machine.link(now, event, out))
    }

    /// From now on, all acquisitions are refused: new and waiting requests end as `Closed`. Holders keep their leases.
    pub(crate) fn close(&self, now: Time) -> Effects<W> {
        self.on_every_machine(|machine, out| machine.refuse(now, &Outcome::Closed, out))
    }

    /// The number of releases that the server has not confirmed.
    pub(crate) fn unconfirmed_releases(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unconfirmed_releases()).sum()
    }

    /// The releases that the server has not confirmed.
    #[cfg(test)]
    pub(crate) fn pending_releases(&self) -> Vec<(Arc<str>, Token)> {
        self.shards.iter().flat_map(|shard| shard.lock().pending_releases()).collect()
    }

    /// When to call [`Machine::timer`] next, unless [`Effects::rearm`] says otherwise before.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.alarm.disarm();
        let due = (0..self.shards.len()).filter_map(|index| self.due_of(index)).min();
        self.alarm.arm(due);
        due
    }

    pub(crate) fn due_of(&self, index: usize) -> Option<Time> {
        self.shards[index].lock().next_due()
    }

    /// All holds, by key. Those of one key have the order of their requests.
    #[cfg(test)]
    pub(crate) fn cells(&self) -> Vec<Arc<LeaseCell>> {
        let mut cells: Vec<_> = self.shards.iter().flat_map(|shard| shard.lock().cells()).collect();
        cells.sort_by_key(|cell| (cell.key.clone(), cell.ticket));
        cells
    }

    /// The number of keys that memory is reserved for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().room()).sum()
    }

    #[cfg(test)]
    pub(crate) fn rest(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().rest()).sum()
    }

    fn shard(&self, key: &Arc<str>) -> (&Locked<Machine<W>>, KeyHash) {
        let hash = self.hasher.hash(key);
        (&self.shards[hash.share_of(self.shards.len())], hash)
    }

    /// Handles an event of one key.
    pub(crate) fn on_key<R>(
        &self,
        now: Time,
        key: &Arc<str>,
        event: impl FnOnce(&mut Step<'_, W>) -> R,
    ) -> (R, Effects<W>) {
        let mut effects = Effects::default();
        let (shard, hash) = self.shard(key);
        let result =
            self.enter(shard, &mut effects, |machine, out| machine.step_hashed(now, (key, hash), out, event));
        (result, effects)
    }

    /// Handles an event for every key.
    pub(crate) fn on_every_key(&self, now: Time, event: impl Fn(&mut Step<'_, W>)) -> Effects<W> {
        self.on_every_machine(|machine, out| machine.each(now, out, &event))
    }

    /// Handles an event for every machine.
    pub(crate) fn on_every_machine(
        &self,
        mut event: impl FnMut(&mut Machine<W>, &mut EffectList<W>),
    ) -> Effects<W> {
        let mut effects = Effects::default();
        for shard in &self.shards {
            self.enter(shard, &mut effects, &mut event);
        }
        effects
    }

    /// Reads the machine of `key`.
    pub(crate) fn look<R>(&self, key: &Arc<str>, look: impl FnOnce(&mut Machine<W>) -> R) -> R {
        look(&mut self.shard(key).0.lock())
    }

    fn enter<R>(
        &self,
        shard: &Locked<Machine<W>>,
        effects: &mut Effects<W>,
        event: impl FnOnce(&mut Machine<W>, &mut EffectList<W>) -> R,
    ) -> R {
        let mut shard = shard.lock();
        let result = event(&mut shard, &mut effects.list);
        effects.rearm |= self.alarm.arm(shard.next_due());
        result
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
