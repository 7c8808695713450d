//! Callers, which wait for locks, hold, extend and release them, and are dropped at any point at which they wait.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::super::client::What;
use super::super::workload::State;
use super::super::world::World;
use super::{Caller, Told};
use crate::driver::{
    LeaseHandle, acquire, acquire_all, begin_hold, extend, hand_over, release, report_acquired,
};
use crate::engine::{Outcome, Want};
use crate::lease_cell::CellState;
use crate::protocol::Time;
use distlock_store::clock;

impl World {
    pub(super) fn start_driven(&mut self, c: usize, local: Time, index: usize) {
        let label = Cow::Owned(index.to_string());
        let want = Want { label, ..self.requests[index].want(local) };
        let key = self.keys[self.requests[index].key].name.clone();
        note!(self, "process {c}: request {index} for {key}: {want:?}");
        let waiting = self.clients[c].waiting_here(&key);
        self.requests[index].crowded = want.max_waiters.is_some_and(|most| waiting >= most as usize);
        let ticket = self.next_ticket(c);
        self.requested(local, index, ticket, want.wait_limit);
        if let Some(late) = self.requests[index].cancel_after {
            self.post(c, late, What::Cancel(index));
        }
        let Some(driver) = &mut self.clients[c].driver else { return };
        let (alive, told) = (driver.alive.clone(), driver.told.clone());
        let task = driver.tasks.spawn(Box::pin(async move {
            let result = acquire(&alive, clock::now(), key, want).await;
            told.lock().push(Told::One(index, result));
        }));
        driver.waiting.insert(Caller::Request(index), task);
        self.settle(c, local);
        if self.requests[index].crowded && self.requests[index].is_waiting() {
            self.fail("max_waiters", format!("request {index} waits behind {waiting} others"));
        }
    }

    /// The caller looks at a request that was granted.
    pub(super) fn look_driven(&mut self, c: usize, local: Time, index: usize) {
        let Some(driver) = &mut self.clients[c].driver else { return };
        driver.left.remove(&index);
        let Some(task) = driver.waiting.get(&Caller::Request(index)).copied() else { return };
        if self.requests[index].drops && self.requests[index].looks_late.is_some() {
            return self.end_request(c, local, index);
        }
        self.enter(c, local, |driver| driver.tasks.poll(task));
    }

    pub(super) fn takes_in_hand(&mut self, c: usize, local: Time, index: usize, handle: LeaseHandle) {
        let cell = handle.cell.clone();
        if self.requests[index].is_waiting() {
            // The hold began and ended within one step.
            self.done(c, index, Outcome::Acquired(cell.clone()));
        }
        let Some(driver) = &mut self.clients[c].driver else { return };
        driver.seen.insert(cell.ticket);
        driver.handles.insert(index, Arc::new(handle));
        self.enter(c, local, |driver| report_acquired(driver.core(), &cell, Duration::ZERO));
        if self.requests[index].group.is_some() {
            return;
        }
        if self.believed_until(index).is_some() {
            self.pick_up(c, index);
        } else {
            // Its caller finds out at once.
            self.end_request(c, local, index);
        }
    }

    /// Asks for the keys behind those that are held.
    pub(in super::super) fn wait_for_all(
        &mut self,
        c: usize,
        local: Time,
        group: usize,
        rest: &[usize],
        want: Want,
    ) {
        let keys: Vec<Arc<str>> =
            rest.iter().map(|index| self.keys[self.requests[*index].key].name.clone()).collect();
        let want = Want { label: Cow::Owned(format!("g{group}")), ..want };
        note!(self, "process {c}: requests {rest:?} for {keys:?}: {want:?}");
        for index in rest {
            let ticket = self.next_ticket(c);
            self.requested(local, *index, ticket, want.wait_limit);
            if *index != rest[0] {
                // The command may leave this key out.
                self.requests[*index].state = State::Planned;
            }
        }
        let Some(driver) = &mut self.clients[c].driver else { return };
        let (alive, told) = (driver.alive.clone(), driver.told.clone());
        let task = driver.tasks.spawn(Box::pin(async move {
            let (handles, outcome) = acquire_all(&alive, &keys, &want).await;
            told.lock().push(Told::All(group, handles, outcome));
        }));
        driver.waiting.insert(Caller::Group(group), task);
        self.settle(c, local);
    }

    pub(super) fn group_was_told(
        &mut self,
        c: usize,
        local: Time,
        group: usize,
        handles: Vec<LeaseHandle>,
        outcome: Option<Outcome>,
    ) {
        let members = self.groups[group].clone();
        for handle in handles {
            let holder = members
                .iter()
                .copied()
                .find(|index| self.keys[self.requests[*index].key].name == handle.cell.key);
            if let Some(index) = holder {
                self.takes_in_hand(c, local, index, handle);
            }
        }
        let missing = members.iter().copied().find(|index| self.requests[*index].cell().is_none());
        match (missing, outcome) {
            (Some(index), Some(outcome)) => {
                if self.requests[index].is_planned() {
                    self.requests[index].state = State::Waiting;
                }
                self.done(c, index, outcome);
            }
            (Some(_), None) => {
                for index in members {
                    if self.requests[index].is_waiting() {
                        self.requests[index].state = State::Planned;
                    }
                }
                self.several_may_go_on(c, group);
            }
            (None, _) => self.several_may_go_on(c, group),
        }
    }

    /// All keys of a request are in hand.
    pub(in super::super) fn begin_driven(&mut self, c: usize, local: Time, index: usize, want: &Want) {
        let handle = self.clients[c].driver.as_ref().and_then(|driver| driver.handles.get(&index)).cloned();
        if let Some(handle) = handle {
            self.enter(c, local, |_| begin_hold(&handle, want));
        }
    }

    /// A caller stops waiting.
    pub(in super::super) fn stop_waiting(&mut self, c: usize, local: Time, index: usize) {
        self.abort_caller(c, local, Caller::Request(index));
    }

    pub(in super::super) fn group_stops_waiting(&mut self, c: usize, local: Time, group: usize) {
        self.abort_caller(c, local, Caller::Group(group));
    }

    fn abort_caller(&mut self, c: usize, local: Time, caller: Caller) {
        let task = self.clients[c].driver.as_mut().and_then(|driver| driver.waiting.remove(&caller));
        if let Some(task) = task {
            self.enter(c, local, |driver| driver.tasks.abort(task));
        }
        self.settle(c, local);
    }

    /// A caller releases its lock, and awaits the reply, or is dropped meanwhile; or drops the lock.
    pub(in super::super) fn release_driven(&mut self, c: usize, local: Time, index: usize) {
        let handle = self.clients[c].driver.as_mut().and_then(|driver| driver.handles.remove(&index));
        let Some(handle) = handle else { return self.stop_waiting(c, local, index) };
        if self.requests[index].hands_over {
            return self.hand_over_driven(c, local, index, handle);
        }
        let how = self.kernel.rng.u32(0..4);
        note!(self, "process {c}: request {index} lets go, {how}");
        if how == 0 {
            self.enter(c, local, |_| drop(handle));
            return self.settle(c, local);
        }
        let Some(driver) = &self.clients[c].driver else { return };
        let told = driver.told.clone();
        let task = driver.tasks.spawn(Box::pin(async move {
            let mut released = release(&handle);
            let result = poll_fn(|cx| released.poll(cx)).await;
            told.lock().push(Told::Confirmed(index, result));
        }));
        if how == 1 {
            let late = self.some(2 * self.cfg.delay.1 * 1_000);
            self.post(c, late, What::Abort(task));
        }
        self.settle(c, local);
    }

    /// A holder hands the lock over, or is dropped meanwhile.
    fn hand_over_driven(&mut self, c: usize, local: Time, index: usize, handle: Arc<LeaseHandle>) {
        note!(self, "process {c}: request {index} begins to hand over");
        let asked = self.server_time();
        let Some(driver) = &self.clients[c].driver else { return };
        let told = driver.told.clone();
        let task = driver.tasks.spawn(Box::pin(async move {
            let handed_over = hand_over(&handle).await;
            let handed_over = handed_over.map(|ttl| (handle.cell.clone(), ttl));
            told.lock().push(Told::HandedOver(index, asked, handed_over));
        }));
        if self.kernel.rng.u32(0..3) == 0 {
            let late = self.some(2 * self.cfg.delay.1 * 1_000);
            self.post(c, late, What::Abort(task));
        }
        self.settle(c, local);
    }

    /// Returns false if it is known that the lock is no longer held.
    pub(in super::super) fn extend_driven(
        &mut self,
        c: usize,
        local: Time,
        index: usize,
        ttl: Duration,
    ) -> bool {
        let Some(driver) = &self.clients[c].driver else { return false };
        let Some(handle) = driver.handles.get(&index).cloned() else { return false };
        let held = matches!(handle.cell.peek(local), CellState::Until(_));
        let told = driver.told.clone();
        let task = driver.tasks.spawn(Box::pin(async move {
            let result = extend(&handle, ttl).confirmed().await;
            told.lock().push(Told::Confirmed(index, result));
        }));
        if self.kernel.rng.u32(0..3) == 0 {
            let late = self.some(2 * self.cfg.delay.1 * 1_000);
            self.post(c, late, What::Abort(task));
        }
        held
    }
}
