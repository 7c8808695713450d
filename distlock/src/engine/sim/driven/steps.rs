//! The steps of a process with the real driver, and their results.

use std::sync::Arc;
use std::time::Duration;

use super::super::answers::short;
use super::super::client::{What, was_free};
use super::super::config::MILLI;
use super::super::workload::{Request, State};
use super::super::world::{Event, World};
use super::store::Sent;
use super::{Caller, Driver, Outgoing, Place, Told};
use crate::backend::Events;
use crate::driver::AcquireResult;
use crate::engine::{
    AcquirePurpose, Answer, Command, Context, Outcome, Queueing, ReleasePurpose, RenewPurpose, Telling,
};
use crate::lease_cell::{LeaseCell, Ticket};
use crate::protocol::op::{self, Ask};
use crate::protocol::{Failure, LinkEvent, RenewReply, ServerTime, Time, Token};
use crate::simulation::tasks::TaskId;
use distlock_store::clock;

impl World {
    pub(in super::super) fn is_driven(&self, c: usize) -> bool {
        self.clients[c].driver.is_some()
    }

    /// Runs code of the process, while its clock says `local`.
    pub(super) fn enter<T>(&self, c: usize, local: Time, work: impl FnOnce(&Driver) -> T) -> Option<T> {
        let client = &self.clients[c];
        let driver = client.driver.as_ref()?;
        if client.link.up {
            driver.store.comes_up();
        } else {
            driver.store.goes_down();
        }
        Some(clock::simulated::at(local, || work(driver)))
    }

    pub(in super::super) fn driven(&mut self, c: usize, local: Time, what: What) {
        match what {
            What::Answer { job, answer } => self.slots_are_filled(c, local, vec![(job, answer)]),
            What::Answers(answers) => self.slots_are_filled(c, local, answers),
            What::Push(push) => {
                note!(self, "process {c}: push {push:?}");
                self.count_unknown(c, &push);
                self.enter(c, local, |driver| driver.core().push(push));
            }
            What::Hint(hint) => {
                note!(self, "process {c}: hint {hint:?}");
                self.enter(c, local, |driver| driver.core().notice(hint));
            }
            What::Link(event) => {
                note!(self, "process {c}: link {event:?}");
                self.link_changed(c, &event);
                self.enter(c, local, |driver| driver.core().link(event));
            }
            What::Alarm(alarm) => {
                self.count_spin(c);
                self.enter(c, local, |_| alarm.fire());
            }
            What::Put { made, list } => list.into_iter().for_each(|outgoing| self.put(c, made, outgoing)),
            What::Abort(task) => {
                self.enter(c, local, |driver| driver.tasks.abort(task));
            }
            What::Start(request) => self.start_driven(c, local, request),
            What::Cancel(request) => self.cancel_request(c, local, request),
            What::PickUp(request) => self.look_driven(c, local, request),
            What::Body(request, step) => self.body(c, local, request, step),
            What::GoOn(group) => self.go_on(c, local, group),
            What::GiveUp(group) => self.give_up(c, local, group),
            What::Close => {
                note!(self, "process {c}: shuts down");
                self.clients[c].closed = true;
                self.enter(c, local, |driver| driver.core().close());
            }
            What::LoseAll => {
                self.enter(c, local, |driver| driver.core().lose_all());
            }
            // Steps of an engine without its driver.
            What::Timer { .. }
            | What::AnswerAfter { .. }
            | What::Look { .. }
            | What::Send(..)
            | What::SendAcquireAll(_) => {}
        }
        self.settle(c, local);
    }

    fn slots_are_filled(&mut self, c: usize, local: Time, answers: Vec<(usize, Answer)>) {
        let mut taken_anew: Vec<(Token, u64)> = Vec::new();
        for (job, answer) in answers {
            let token = self.jobs[job].context.token;
            note!(self, "process {c}: answer to {job} of {}: {}", token.0, short(&answer));
            self.time_was_received(c, job, &answer);
            if was_free(&answer) {
                taken_anew.push((token, self.jobs[job].applied_at));
            }
            if let Some(place) = self.jobs[job].place.take() {
                place.put(answer);
            }
        }
        self.settle(c, local);
        for (token, applied_at) in taken_anew {
            self.check_taken_anew(c, token, applied_at);
        }
    }

    pub(in super::super) fn link_changed(&mut self, c: usize, event: &LinkEvent) {
        self.clients[c].disturbed_at = self.now;
        if matches!(event, LinkEvent::Up { .. }) {
            self.clients[c].knows_the_time = false;
            self.clients[c].knew_the_time = false;
        }
    }

    /// Polls the tasks that were woken, until none is.
    pub(in super::super) fn settle(&mut self, c: usize, local: Time) {
        self.collect(c, local);
        for _ in 0..10_000 {
            let Some(driver) = &self.clients[c].driver else { return };
            let Some(task) = driver.tasks.next_woken() else { return };
            self.poll_task(c, local, task);
            self.collect(c, local);
        }
        self.fail("hot loop", format!("the tasks of process {c} wake each other without end"));
    }

    /// Whether a request was answered and its caller will be polled soon, or its caller was just dropped.
    pub(in super::super) fn is_about_to_be_told(&self, index: usize) -> bool {
        let request = &self.requests[index];
        let Some(driver) = &self.clients[request.client].driver else { return false };
        let caller = request.group.map_or(Caller::Request(index), Caller::Group);
        self.is_left(index) || driver.waiting.get(&caller).is_none_or(|task| driver.tasks.is_woken(*task))
    }

    /// Whether it is behind the first key of a command whose caller waits. Then it is not known whether the command
    /// left it out, or whether it waits.
    pub(in super::super) fn may_wait_in_a_batch(&self, request: &Request) -> bool {
        let (driver, group) = (self.clients[request.client].driver.as_ref(), request.group);
        request.is_planned()
            && driver
                .zip(group)
                .is_some_and(|(driver, group)| driver.waiting.contains_key(&Caller::Group(group)))
    }

    /// A caller whose lock was granted notices that a little later, and is polled then.
    fn poll_task(&mut self, c: usize, local: Time, task: TaskId) {
        let caller = self.clients[c].driver.as_ref().and_then(|driver| driver.caller_of(task));
        let is_granted = match caller {
            Some(Caller::Request(index)) => self.requests[index].cell().is_some(),
            Some(Caller::Group(_)) | None => false,
        };
        let is_left = matches!(caller, Some(Caller::Request(index)) if self.is_left(index));
        if !is_granted && !is_left {
            self.enter(c, local, |driver| driver.tasks.poll(task));
            if let Some(Caller::Request(index)) = caller {
                self.is_polled_no_more(c, index);
            }
        }
    }

    /// Stops polling the caller, which has just sent its command, or waits.
    fn is_polled_no_more(&mut self, c: usize, index: usize) {
        let request = &self.requests[index];
        let (Some(late), true) = (request.looks_late, index.is_multiple_of(2) && request.is_waiting()) else {
            return;
        };
        let Some(driver) = &mut self.clients[c].driver else { return };
        if driver.left.insert(index) {
            self.post(c, late, What::PickUp(index));
        }
    }

    /// Its state is not known, because its caller is not polled.
    pub(in super::super) fn is_left(&self, index: usize) -> bool {
        let driver = self.clients[self.requests[index].client].driver.as_ref();
        driver.is_some_and(|driver| driver.left.contains(&index))
    }

    /// Handles what the code that has just run leaves to the world.
    fn collect(&mut self, c: usize, local: Time) {
        let Some(driver) = &self.clients[c].driver else { return };
        let (outgoing, dropped) = (driver.store.take_outgoing(), driver.store.take_dropped());
        let (alarms, cells) = (driver.tasks.take_alarms(), driver.core().engine.cells());
        let told = std::mem::take(&mut *driver.told.lock());
        let losses = std::mem::take(&mut *driver.losses.0.lock());
        if dropped > 0 {
            self.fail("awaited", format!("process {c} gave up a command that was not answered"));
        }
        if self.chance(self.cfg.preempt) && !outgoing.is_empty() {
            let late = self.kernel.rng.u64(0..3 * MILLI);
            self.post(c, late, What::Put { made: local, list: outgoing });
        } else {
            outgoing.into_iter().for_each(|outgoing| self.put(c, local, outgoing));
        }
        for (due, alarm) in alarms {
            let at = self.clients[c].clock.when(due);
            // A runtime's timers are late by up to a millisecond or so, now and then by more.
            let late = if self.kernel.rng.u32(0..20) == 0 { 10 * MILLI } else { MILLI };
            let late = self.kernel.rng.u64(0..late);
            let life = self.clients[c].life;
            let what = What::Alarm(alarm);
            self.at(at.saturating_add(late), Event::Process { client: c, life, read: None, what });
        }
        let granted: Vec<usize> = cells.into_iter().filter_map(|cell| self.is_granted(c, &cell)).collect();
        told.into_iter().for_each(|told| self.was_told(c, local, told));
        for index in granted {
            if self.requests[index].group.is_none() && !self.requests[index].picked_up {
                let late = self.some(self.cfg.notice * 500);
                let late = self.requests[index].looks_late.unwrap_or(late);
                self.post(c, late, What::PickUp(index));
            }
        }
        for (label, key, reason) in losses {
            if let Some(index) = self.holder_of(&label, &key) {
                self.was_lost(c, index, reason);
            }
        }
    }

    /// Reports a hold to the oracle when it begins, although its caller may not have been polled yet.
    fn is_granted(&mut self, c: usize, cell: &Arc<LeaseCell>) -> Option<usize> {
        let driver = self.clients[c].driver.as_mut()?;
        if !driver.seen.insert(cell.ticket) {
            return None;
        }
        let index = self.holder_of(&cell.label, &cell.key)?;
        if self.requests[index].is_planned() {
            // A key behind the first one, which the same command has acquired.
            self.requests[index].state = State::Waiting;
        }
        self.done(c, index, Outcome::Acquired(cell.clone()));
        Some(index)
    }

    /// A label names the request that a lock was asked for.
    fn holder_of(&self, label: &str, key: &str) -> Option<usize> {
        match label.strip_prefix('g') {
            None => label.parse().ok(),
            Some(group) => {
                let members: &Vec<usize> = self.groups.get(group.parse::<usize>().ok()?)?;
                members.iter().copied().find(|index| *self.keys[self.requests[*index].key].name == *key)
            }
        }
    }

    pub(super) fn next_ticket(&mut self, c: usize) -> Ticket {
        let Some(driver) = &mut self.clients[c].driver else { return Ticket(0) };
        driver.next_ticket += 1;
        Ticket(driver.next_ticket)
    }

    fn was_told(&mut self, c: usize, local: Time, told: Told) {
        match told {
            Told::One(index, result) => {
                self.waits_no_longer(c, Caller::Request(index));
                match result {
                    AcquireResult::Acquired(handle) => self.takes_in_hand(c, local, index, handle),
                    AcquireResult::Not(outcome) => self.done(c, index, outcome),
                }
            }
            Told::All(group, handles, outcome) => {
                self.waits_no_longer(c, Caller::Group(group));
                self.group_was_told(c, local, group, handles, outcome);
            }
            Told::Confirmed(index, Err(failed)) | Told::HandedOver(index, _, Err(failed)) => {
                self.judged(index, &Err(failed));
            }
            Told::HandedOver(index, asked, Ok((cell, ttl))) => {
                let promised = asked.0 + u64::try_from(ttl.as_micros()).unwrap_or(0);
                self.ticket_is_out(c, index, &cell, Some(ServerTime(promised)));
            }
            Told::Confirmed(_, Ok(())) => {}
        }
    }

    fn waits_no_longer(&mut self, c: usize, caller: Caller) {
        if let Some(driver) = &mut self.clients[c].driver {
            driver.waiting.remove(&caller);
        }
    }

    /// Puts a command on the wire. The engine created it at `made`, and this counts as the time of sending, as in the
    /// engine. Meanwhile another thread may have sent other commands, for example an extension.
    fn put(&mut self, c: usize, made: Time, outgoing: Outgoing) {
        if !self.clients[c].link.up {
            outgoing.fail(Failure::NotSent);
            return;
        }
        match outgoing {
            Outgoing::Acquire(Sent { key, op, slot }) => {
                let ttl = match op {
                    Ask::Plain(op) => op.ttl,
                    Ask::Full(op) => op.ttl,
                };
                let context = Context { key, token: op.token(), sent: made };
                self.put_one(c, context, Command::Acquire(acquiring(ttl), op), Place::Acquire(slot));
            }
            Outgoing::Replace(Sent { key, op, slot }) => {
                let context = Context { key, token: op.token, sent: made };
                self.put_one(c, context, Command::Replace(acquiring(op.ttl), op), Place::Acquire(slot));
            }
            Outgoing::Release(Sent { key, op, slot }) => {
                let context = Context { key, token: op.token, sent: made };
                let asked = ReleasePurpose { sends: 1, deadline: None, until: Some(made), keep_until: None };
                self.put_one(c, context, Command::Release(asked, op), Place::Release(slot));
            }
            Outgoing::Renew(sent) => self.put_renewal(c, made, sent, Some(Ticket(0))),
            Outgoing::RenewAll(all) => {
                all.into_iter().for_each(|sent| self.put_renewal(c, made, sent, None));
            }
            Outgoing::AcquireAll(all) => {
                let first = self.jobs.len();
                let mut batch = Vec::new();
                let mut places = Vec::new();
                for Sent { key, op, slot } in all {
                    batch.push((Context { key, token: op.token, sent: made }, acquiring(op.ttl), op));
                    places.push(Place::AcquireInBatch(slot));
                }
                self.send_acquire_all(c, batch);
                self.answers_go_to(first, places);
            }
        }
    }

    fn put_renewal(
        &mut self,
        c: usize,
        made: Time,
        sent: Sent<op::Renew, RenewReply>,
        ticket: Option<Ticket>,
    ) {
        let Sent { key, op, slot } = sent;
        self.clients[c].renewed.insert(op.token, self.kernel.now);
        let context = Context { key, token: op.token, sent: made };
        let asked = RenewPurpose { ticket, ttl: op.ttl };
        self.put_one(c, context, Command::Renew(asked, op), Place::Renew(slot));
    }

    fn put_one(&mut self, c: usize, context: Context, command: Command, place: Place) {
        let first = self.jobs.len();
        self.send(c, context, command, None);
        self.answers_go_to(first, vec![place]);
    }

    /// The answers to the commands from `first` on.
    fn answers_go_to(&mut self, first: usize, places: Vec<Place>) {
        for (job, place) in self.jobs[first..].iter_mut().zip(places) {
            job.place = Some(place);
        }
    }
}

/// The purpose of a command that asks for a lock, as the world needs it.
fn acquiring(ttl: Duration) -> AcquirePurpose {
    AcquirePurpose { seq: 0, ttl, fences: 0, queueing: Queueing::May, telling: Telling::May }
}
