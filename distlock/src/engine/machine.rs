//! A share of the keys: events go in, effects come out.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::rules;
use super::state::hashed::{AlreadyHashed, HashedKey, KeyHash, KeyHasher};
use super::state::{Env, KeyState, PendingRelease, PendingReleases, SpareQueue};
use super::step::Step;
use super::{EffectList, Outcome};
use crate::error::LostReason;
#[cfg(test)]
use crate::lease_cell::LeaseCell;
use crate::protocol::{
    Account, EarlierCommands, LATE_COMMANDS, LinkEvent, Notifications, StoreError, Time, Token, Tuning,
};
use distlock_store::kit::shrink::shrink;

#[derive(Debug)]
pub(crate) struct Machine<W> {
    env: Env,
    hasher: KeyHasher,
    keys: HashMap<HashedKey, KeyState<W>, AlreadyHashed>,
    timers: BTreeSet<(Time, Arc<str>)>,
    pending: PendingReleases,
    spare: SpareQueue<W>,
}

impl<W> Machine<W> {
    pub(crate) fn new(client: Arc<str>, tuning: Tuning, index: u64, count: u64, seed: u64) -> Self {
        let env = Env::new(client, tuning, index, count, seed);
        Machine {
            env,
            hasher: KeyHasher::new(seed),
            keys: HashMap::default(),
            timers: BTreeSet::new(),
            pending: PendingReleases::default(),
            spare: SpareQueue::default(),
        }
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let pending = self.pending.next_due();
        timer.into_iter().chain(pending).min()
    }

    fn hashed(&self, key: &Arc<str>) -> HashedKey {
        HashedKey { key: key.clone(), hash: self.hasher.hash(key) }
    }

    fn state(&self, key: &Arc<str>) -> Option<&KeyState<W>> {
        self.keys.get(&self.hashed(key))
    }

    fn state_mut(&mut self, key: &Arc<str>) -> Option<&mut KeyState<W>> {
        let hashed = self.hashed(key);
        self.keys.get_mut(&hashed)
    }

    pub(crate) fn waiting(&self, key: &Arc<str>) -> usize {
        self.state(key).map_or(0, |state| state.waiters.len())
    }

    /// How many wait here, if a request that has just joined them waits for another one of this process: one that holds
    /// the lock, or that came first.
    pub(crate) fn waiting_behind_others(&self, key: &Arc<str>) -> Option<usize> {
        let state = self.state(key)?;
        let waiting = state.waiters.len();
        (waiting > 1 || (waiting == 1 && !state.leases.is_empty())).then_some(waiting)
    }

    /// The keys that are held or waited for, in no order.
    pub(crate) fn keys_in_use(&self) -> impl Iterator<Item = &Arc<str>> {
        let is_in_use = |state: &KeyState<W>| !state.leases.is_empty() || !state.waiters.is_empty();
        self.keys.iter().filter(move |(_, state)| is_in_use(state)).map(|(hashed, _)| &hashed.key)
    }

    pub(crate) fn account(&self, now: Time, key: &Arc<str>) -> Option<Account> {
        self.state(key)?.account(key, now)
    }

    /// The number of releases that the server has not confirmed.
    pub(crate) fn unconfirmed_releases(&self) -> usize {
        self.pending.len()
    }

    /// No task of this process waits for the key or holds it, and no other process is known to want it.
    pub(crate) fn is_untouched(&self, now: Time, key: &Arc<str>) -> bool {
        let able = self.env.refusal.is_none() && !self.env.link.is_down();
        able && self.state(key).is_none() && !self.env.hints.is_contended(key, now)
    }

    /// True if the lease of `token` is ours and has a holder.
    pub(crate) fn holds(&mut self, key: &Arc<str>, token: Token) -> bool {
        self.state_mut(key).is_some_and(|state| state.lease(token).is_some_and(|lease| lease.is_held()))
    }

    pub(crate) fn link(&mut self, now: Time, event: &LinkEvent, out: &mut EffectList<W>) {
        match event {
            LinkEvent::Down { cause } => {
                let was_down = self.env.link.down.replace(cause.clone()).is_some();
                self.env.link.pushes = Notifications::Off;
                #[cfg(test)]
                self.env.record_link(now);
                // After another failed attempt to connect, only the reason is new.
                let is_affected = |state: &KeyState<W>| !was_down || state.attempt.is_some();
                self.each_of(now, is_affected, out, |step| {
                    step.lingers_no_longer();
                    step.attempt_lost_link(cause);
                });
            }
            LinkEvent::Up { earlier, pushes } => {
                self.env.link.down = None;
                self.env.link.pushes = *pushes;
                #[cfg(test)]
                self.env.record_link(now);
                if *earlier == EarlierCommands::MayArrive {
                    self.env.link.earlier_commands = Some((now.after(LATE_COMMANDS), Token(self.env.next)));
                }
                let all = self.pending.take_all();
                self.leave_again(now, all, out);
                self.each(now, out, |step| {
                    step.lingers_no_longer();
                    step.renew_now();
                    step.ask_afresh();
                });
            }
            LinkEvent::Notifications(pushes) => {
                self.env.link.pushes = *pushes;
                self.each(now, out, |step| {
                    // A report that another process wants the lock may have been missed.
                    if rules::lingering_takes_pushes() {
                        step.lingers_no_longer();
                    }
                    if rules::new_subscriptions_are_followed_by_a_look() {
                        step.ask_afresh();
                    }
                });
            }
        }
    }

    /// From now on nothing renews leases, delivers pushes or fires timers.
    pub(crate) fn fail(&mut self, now: Time, cause: &StoreError, out: &mut EffectList<W>) {
        self.refuse(now, &Outcome::Unavailable(cause.clone()), out);
        self.each(now, out, |step| step.lose_all(LostReason::Expired));
    }

    /// Ends new and waiting requests with `outcome`, or with the outcome of an earlier call.
    pub(crate) fn refuse(&mut self, now: Time, outcome: &Outcome, out: &mut EffectList<W>) {
        let refusal = self.env.refusal.get_or_insert_with(|| outcome.clone()).clone();
        self.each(now, out, |step| step.refuse_all(&refusal));
    }

    pub(crate) fn has_leases(&self, key: &Arc<str>) -> bool {
        self.state(key).is_some_and(|state| !state.leases.is_empty())
    }

    pub(crate) fn timer(&mut self, now: Time, out: &mut EffectList<W>) {
        let due = self.pending.take_due(now);
        self.leave_again(now, due, out);
        let mut due = Vec::new();
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.timers.pop_first() else { break };
            if let Some(state) = self.state_mut(&key) {
                state.timer = None;
            }
            due.push(key);
        }
        for key in due {
            self.step(now, &key, out, |step| {
                step.renewals_are_due();
                step.attempt_is_due();
                step.expire_waiters();
            });
        }
    }

    fn leave_again(&mut self, now: Time, releases: Vec<PendingRelease>, out: &mut EffectList<W>) {
        for release in releases {
            let key = release.key.clone();
            self.step(now, &key, out, |step| step.leave_again(release));
        }
    }

    #[cfg(test)]
    pub(crate) fn pending_releases(&self) -> Vec<(Arc<str>, Token)> {
        self.pending.tokens().collect()
    }

    /// True if `token` belongs to an attempt or a lease of this process.
    #[cfg(test)]
    pub(crate) fn knows(&mut self, key: &Arc<str>, token: Token) -> bool {
        self.state_mut(key).is_some_and(|state| {
            state.attempt.as_ref().is_some_and(|attempt| attempt.token == token)
                || state.lease(token).is_some()
        })
    }

    /// The cells of all holders.
    #[cfg(test)]
    pub(crate) fn cells(&self) -> Vec<Arc<LeaseCell>> {
        let leases = self.keys.values().flat_map(|state| &state.leases);
        leases.flat_map(|lease| &lease.holders).map(|holder| holder.cell.clone()).collect()
    }

    /// The number of all remembered items.
    #[cfg(test)]
    pub(crate) fn rest(&self) -> usize {
        self.keys.len() + self.timers.len() + self.pending.len()
    }

    /// Handles one event on one key. A key that is idle afterwards is forgotten.
    pub(crate) fn step<R>(
        &mut self,
        now: Time,
        key: &Arc<str>,
        out: &mut EffectList<W>,
        event: impl FnOnce(&mut Step<'_, W>) -> R,
    ) -> R {
        let hash = self.hasher.hash(key);
        self.step_hashed(now, (key, hash), out, event)
    }

    /// The same for a key whose hash is known.
    pub(crate) fn step_hashed<R>(
        &mut self,
        now: Time,
        (key, hash): (&Arc<str>, KeyHash),
        out: &mut EffectList<W>,
        event: impl FnOnce(&mut Step<'_, W>) -> R,
    ) -> R {
        let mut entry = match self.keys.entry(HashedKey { key: key.clone(), hash }) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(KeyState::default()),
        };
        let (state, env, pending) = (entry.get_mut(), &mut self.env, &mut self.pending);
        state.waiters.borrow_buffer(&mut self.spare);
        let mut step = Step { now, key, state, env, pending, out };
        #[cfg(test)]
        step.begin_record();
        step.advance();
        let result = event(&mut step);
        #[cfg(test)]
        step.end_record();
        let state = entry.get_mut();
        state.waiters.return_buffer(&mut self.spare);
        if state.is_idle() {
            if let Some(at) = entry.remove().timer {
                self.timers.remove(&(at, key.clone()));
            }
            shrink(&mut self.keys);
            return result;
        }
        if let Some(due) = state.next_due(&self.env.link)
            && state.timer.is_none_or(|timer| due < timer)
        {
            if let Some(old) = state.timer.replace(due) {
                self.timers.remove(&(old, key.clone()));
            }
            self.timers.insert((due, key.clone()));
        }
        result
    }

    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.keys.capacity()
    }

    /// Handles the same event on every key.
    pub(crate) fn each(&mut self, now: Time, out: &mut EffectList<W>, event: impl Fn(&mut Step<'_, W>)) {
        self.each_of(now, |_| true, out, event);
    }

    /// Handles the same event on some keys, in an order that does not depend on the map.
    fn each_of(
        &mut self,
        now: Time,
        is_affected: impl Fn(&KeyState<W>) -> bool,
        out: &mut EffectList<W>,
        event: impl Fn(&mut Step<'_, W>),
    ) {
        let affected = self.keys.iter().filter(|(_, state)| is_affected(state));
        let mut keys: Vec<Arc<str>> = affected.map(|(hashed, _)| hashed.key.clone()).collect();
        keys.sort_unstable();
        for key in keys {
            self.step(now, &key, out, &event);
        }
    }
}
