//! Requests for several keys: the caller, which wants all of them or none, and its command.

use std::sync::Arc;

use super::answers::{failure, is_acquired};
use super::client::What;
use super::config::{MICRO, Use};
use super::workload::State;
use super::world::World;
use crate::driver::shards::Effects;
use crate::engine::{AcquirePurpose, Answer, Command, Context, Renewal, WaitLimit};
use crate::protocol::{BatchReply, Failure, LockKind, Time, mutated, op};

impl World {
    /// Makes the request `first` one for several keys, if the run has such requests.
    pub(super) fn make_several(&mut self, first: usize) {
        let suitable = |used_for: Use| matches!(used_for, Use::Exclusive | Use::Readers(_));
        let mut keys: Vec<usize> =
            (0..self.keys.len()).filter(|key| suitable(self.keys[*key].used_for)).collect();
        if keys.len() < 2 {
            return;
        }
        self.rng.shuffle(&mut keys);
        keys.truncate(self.rng.usize(2..=keys.len()));
        keys.sort_unstable();
        let (group, mut members) = (self.groups.len(), Vec::new());
        let drawn = self.keys[keys[0]].used_for.kind(&mut self.rng);
        // The oracle expects no readers of such a key.
        let exclusive = keys.iter().any(|key| self.keys[*key].used_for == Use::Exclusive);
        let kind = if exclusive { LockKind::Exclusive } else { drawn };
        for (place, key) in keys.into_iter().enumerate() {
            let mut request = self.requests[first].clone();
            (request.key, request.kind, request.group) = (key, kind, Some(group));
            request.fenced = false;
            request.own_lease = false;
            request.max_waiters = None;
            // A guard for several keys has no hand-over.
            request.hands_over = false;
            if place == 0 {
                self.requests[first] = request;
                members.push(first);
            } else {
                members.push(self.requests.len());
                self.requests.push(request);
            }
        }
        self.groups.push(members);
        self.gatherings.push(Arc::default());
    }

    pub(super) fn group_is_due(&mut self, c: usize, group: usize) {
        let (alive, life) = (self.clients[c].alive, self.clients[c].life);
        for index in self.groups[group].clone() {
            let request = &mut self.requests[index];
            if alive {
                request.life = Some(life);
            } else {
                request.state = State::Ended;
            }
        }
        if alive {
            self.post(c, 0, What::GoOn(group));
            if let Some(late) = self.requests[self.groups[group][0]].cancel_after {
                self.post(c, late, What::Cancel(self.groups[group][0]));
            }
        }
    }

    /// Asks for the keys behind those that are held.
    pub(super) fn go_on(&mut self, c: usize, local: Time, group: usize) {
        let members = self.groups[group].clone();
        let held = members.iter().take_while(|index| self.requests[**index].cell().is_some()).count();
        let rest = &members[held..];
        if rest.is_empty() || !rest.iter().all(|index| matches!(self.requests[*index].state, State::Planned))
        {
            return;
        }
        let first = &self.requests[members[0]];
        let mut want = first.want(local);
        // All keys have one time limit.
        if let (WaitLimit::Until(_), true) = (want.wait_limit, held > 0) {
            want.wait_limit = WaitLimit::Until(first.until);
        }
        want.collection = Some(self.gatherings[group].clone());
        (want.renewal, want.max_hold, want.min_hold, want.linger) = (Renewal::Keep, None, None, None);
        if self.is_driven(c) {
            return self.wait_for_all(c, local, group, rest, want);
        }
        self.gatherings[group].asks();
        let keys: Vec<Arc<str>> =
            rest.iter().map(|index| self.keys[self.requests[*index].key].name.clone()).collect();
        note!(self, "process {c}: requests {rest:?} for {keys:?}: {want:?}");
        let mut asked = rest.iter().copied();
        let who = || asked.next().unwrap_or(usize::MAX);
        let (tickets, effects) = self.clients[c].engine.acquire_all(local, &keys, &want, who);
        for (index, ticket) in rest.iter().zip(tickets) {
            self.requested(local, *index, ticket, want.wait_limit);
        }
        self.perform(c, effects, None);
    }

    pub(super) fn one_of_several_was_acquired(&mut self, c: usize, index: usize, group: usize) {
        let before = self.groups[group].iter().copied().take_while(|other| *other != index);
        let missing = before.clone().find(|other| self.requests[*other].cell().is_none());
        if let Some(missing) = missing {
            let what = format!("request {index} was acquired, {missing} before it was not");
            self.fail("order", what);
        }
        // The driver continues after its caller has learned the outcome of all keys.
        if !self.is_driven(c) {
            self.several_may_go_on(c, group);
        }
    }

    /// Handles the outcome of one of the keys.
    pub(super) fn several_may_go_on(&mut self, c: usize, group: usize) {
        let members = self.groups[group].clone();
        let all = |is: fn(&State) -> bool| members.iter().all(|index| is(&self.requests[*index].state));
        if all(|state| matches!(state, State::Holding(_))) {
            self.begin_all(c, &members);
            self.begin_body(c, members[0]);
        } else if all(|state| matches!(state, State::Holding(_) | State::Planned)) {
            let late = self.some(100 * MICRO);
            self.post(c, late, What::GoOn(group));
        }
    }

    /// The caller has all keys: the time limits of the request count from now on.
    fn begin_all(&mut self, c: usize, members: &[usize]) {
        let local = self.clients[c].clock.at(self.now);
        for index in members {
            let Some(cell) = self.requests[*index].cell().cloned() else { continue };
            self.requests[*index].acquired = self.now;
            self.requests[*index].begun = Some(local);
            let want = self.requests[*index].want(local);
            if self.is_driven(c) {
                self.begin_driven(c, local, *index, &want);
                continue;
            }
            let ((), effects) =
                self.clients[c].engine.on_key(local, &cell.key, |step| step.begin_hold(&cell, &want));
            self.perform(c, effects, None);
        }
    }

    /// The caller no longer wants the keys: they are released in reverse order, or cancelled.
    pub(super) fn give_up(&mut self, c: usize, local: Time, group: usize) {
        self.group_stops_waiting(c, local, group);
        for index in self.groups[group].clone().into_iter().rev() {
            self.end_request(c, local, index);
            self.requests[index].state = State::Ended;
        }
    }

    // The command for all keys.

    /// Sends one command for several keys: the job of the first carries the others.
    pub(super) fn send_acquire_all(
        &mut self,
        c: usize,
        batch: Vec<(Context, AcquirePurpose, op::Acquire)>,
    ) -> Option<Effects<usize>> {
        if !self.clients[c].link.up {
            let local = self.clients[c].clock.at(self.now);
            let not_sent = |(context, asked, _)| (context, asked, Err(failure(Failure::NotSent)));
            let answers = batch.into_iter().map(not_sent);
            return Some(self.clients[c].engine.on_acquire_all_reply(local, answers.collect()));
        }
        let first = self.jobs.len();
        for (index, (context, asked, op)) in batch.into_iter().enumerate() {
            let command = Command::Acquire(asked, op.into());
            if index == 0 {
                self.send(c, context, command, None);
                continue;
            }
            note!(self, "process {c}: with it: {} {op:?}", context.key);
            let follower = self.jobs.len();
            self.jobs.push(self.jobs[first].follower(context, command));
            self.jobs[first].followers.push(follower);
        }
        None
    }

    /// Takes one lock after the other, up to the first that is not free.
    pub(super) fn carry_out_acquire_all(&mut self, job: usize, first: &Answer) {
        let mut before = is_acquired(first);
        for follower in self.jobs[job].followers.clone() {
            self.jobs[follower].applied_at = self.now;
            let goes_on = before || mutated!(AcquireAllGoesOn);
            let answer = if goes_on {
                self.carry_out(follower)
            } else {
                let Command::Acquire(asked, _) = self.jobs[follower].command else { continue };
                Answer::AcquireInBatch(asked, Ok(BatchReply::Skipped))
            };
            if !before && is_acquired(&answer) {
                self.fail("order", "the server took a key though one before it was not free");
            }
            before = is_acquired(&answer);
            self.jobs[follower].answer = Some(answer);
        }
    }
}
