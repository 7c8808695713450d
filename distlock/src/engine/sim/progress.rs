//! Checks progress: a free lock with waiters is soon held, and every request ends.

use std::sync::Arc;
use std::time::Duration;

use super::config::{MILLI, SECOND, Use};
use super::oracle::Who;
use super::workload::Request;
use super::world::{Event, WATCH, World};
use crate::backend::memory::server::Queued;
use crate::engine::Renewal;
use crate::lease_cell::CellState;
use crate::protocol::{LockKind, ServerTime, Token, parse_owner, token_text};

/// With several holders, an acquisition says nothing about the other waiters.
const SLOW: u64 = 10 * SECOND;

impl World {
    pub(super) fn vacancy_may_begin(&mut self, key: usize) {
        if !self.has_room(key) {
            self.keys[key].room_since = None;
        } else {
            self.keys[key].room_since.get_or_insert(self.kernel.now);
        }
        if self.keys[key].vacant_since.is_none() && !self.is_believed(key) {
            self.keys[key].vacant_since = Some(self.now);
        }
    }

    /// Notes that waiters discover the change by their heartbeats.
    pub(super) fn nobody_was_told(&mut self, key: usize) {
        let now = self.now;
        let watch = &mut self.keys[key];
        watch.slow = true;
        watch.vacant_since = watch.vacant_since.map(|_| now);
        watch.room_since = watch.room_since.map(|_| now);
        watch.slow_until = now + SLOW;
    }

    /// The same for a lock with several holders.
    pub(super) fn others_were_not_told(&mut self, key: usize) {
        if self.keys[key].used_for != Use::Exclusive {
            self.keys[key].slow_until = self.now + SLOW;
        }
    }

    /// Whether another reader, or another holder of a limited lock, could get the lock, as far as the holders know.
    fn has_room(&self, key: usize) -> bool {
        let believed = || self.keys[key].holders.iter().filter(|holder| self.believes(holder).is_some());
        match self.keys[key].used_for {
            Use::Exclusive | Use::Clashing(_) => false,
            Use::Limited(limit) => believed().count() < usize::try_from(limit).unwrap_or(0),
            Use::Readers(_) => {
                let writes = |request: &Request| {
                    request.key == key
                        && request.kind == LockKind::Exclusive
                        && (request.is_waiting() || self.may_wait_in_a_batch(request))
                };
                believed().all(|holder| holder.kind == LockKind::Shared) && !self.requests.iter().any(writes)
            }
        }
    }

    fn is_believed_in(&self, key: usize, text: &str) -> bool {
        self.keys[key].holders.iter().any(|holder| {
            let Who::Request(index) = holder.who else { return false };
            let request = &self.requests[index];
            let name = &self.clients[request.client].name;
            self.believes(holder).is_some()
                && request.cell().is_some_and(|cell| token_text(name, cell.token) == text)
        })
    }

    /// Whether no other process could get the lock: the processes with a place on the server cannot act, or may keep
    /// it, or the first one in the queue cannot take it.
    fn room_is_excused(&self, key: usize) -> bool {
        let server_time = self.server_time();
        let name = &self.keys[key].name;
        let readers = matches!(self.keys[key].used_for, Use::Readers(_));
        let stays = |(text, kind, _): &(Arc<str>, LockKind, ServerTime)| {
            let counts = !(readers && *kind == LockKind::Shared);
            counts && !self.is_believed_in(key, text) && self.may_stay(text)
        };
        let gone = |entry: &Queued| {
            let found = self.clients.iter().position(|c| c.alive && c.name == entry.client);
            !found.is_some_and(|c| self.is_able(c) && self.clients[c].knows(name, entry.token))
        };
        !self.serves()
            || self.server.leases(server_time, name).iter().any(stays)
            || self.server.queue(server_time, name).iter().any(gone)
    }

    pub(super) fn vacancy_ends(&mut self, key: usize) {
        self.keys[key].vacant_since = None;
        self.keys[key].slow = false;
        self.keys[key].room_since = None;
        if self.has_room(key) {
            self.keys[key].room_since = Some(self.now);
        }
    }

    /// Whether no process could use the lock: the processes that have it on the server cannot act, or may keep it.
    pub(super) fn vacancy_is_excused(&self, key: usize) -> bool {
        let server_time = self.server_time();
        let leases = self.server.leases(server_time, &self.keys[key].name);
        if !self.serves() || leases.iter().any(|(text, ..)| self.may_stay(text)) {
            return true;
        }
        // Behind a marker no process overtakes the first one in the queue, even if that one cannot act.
        leases.iter().any(|(_, kind, _)| *kind != LockKind::Exclusive) && self.room_is_excused(key)
    }

    /// Whether `text` may stay on the server although no process believes that it holds it.
    fn may_stay(&self, text: &str) -> bool {
        let Some((name, token)) = parse_owner(text) else { return true };
        if self.tickets.contains_key(text) {
            return true;
        }
        let found = self.clients.iter().position(|c| c.alive && *c.name == *name);
        let Some(c) = found.filter(|c| self.is_able(*c)) else { return true };
        // A release that was refused is repeated, with growing pauses.
        let pending = |(_, other): (Arc<str>, Token)| other == token;
        if self.cfg.refusals > 0 && self.clients[c].pending_releases().into_iter().any(pending) {
            return true;
        }
        if self.is_failing(c, token) {
            return true;
        }
        // A body that continues after the loss of its lease keeps the lease on the server.
        self.requests
            .iter()
            .any(|request| request.client == c && request.cell().is_some_and(|cell| cell.token == token))
    }

    /// Checks that a process that can act does not wait for long for a key that no process holds.
    pub(super) fn check_wait(&mut self, key: usize) {
        let (vacant, room) = (self.keys[key].vacant_since, self.keys[key].room_since);
        let clashing = matches!(self.keys[key].used_for, Use::Clashing(_));
        if self.cfg.is_short() || clashing || (vacant.is_none() && room.is_none()) {
            return;
        }
        let most = self.longest_vacancy(key);
        let late = self.keys[key].late_until;
        let mut found = None;
        for (index, request) in self.requests.iter().enumerate() {
            let c = request.client;
            let waits = request.is_waiting() && request.is_patient() && !self.is_left(index);
            if request.key != key || !waits || !self.is_able(c) {
                continue;
            }
            let free = if request.kind == LockKind::Exclusive { vacant } else { room.or(vacant) };
            let Some(free) = free else { continue };
            let since = free.max(request.started).max(self.clients[c].disturbed_at).max(late);
            if self.now > since + most {
                found = Some((index, (self.now - since) / MILLI));
            }
        }
        if let Some((index, millis)) = found {
            self.fail(
                "progress",
                format!("request {index} waits for a free lock, for {millis} ms (at most {})", most / MILLI),
            );
        }
    }

    pub(super) fn longest_vacancy(&self, key: usize) -> u64 {
        let polls =
            if self.cfg.pushes && self.cfg.pollers == 0 && self.cfg.is_whole() { 0 } else { 100 * MILLI };
        // After a temporary refusal a process asks again within this time.
        let polls = if self.cfg.refusals > 0 { 700 * MILLI } else { polls };
        let gap = u64::try_from(self.cfg.tuning.poll_gap.as_nanos()).unwrap_or(0);
        // After a clock step two processes may believe that they hold it, and the end of the first one hides what the
        // other one left.
        let confused = if self.fault_at > 0 { 40 } else { 5 };
        let several = self.keys[key].used_for != Use::Exclusive && self.now < self.keys[key].slow_until;
        let slow = self.keys[key].slow
            || several
            || !self.cfg.in_order()
            || (self.stepped_at > 0 && self.now < self.stepped_at + confused * SECOND);
        let slow = if slow { 2_450 * MILLI } else { 0 };
        let untold = self.now < self.keys[key].untold_until;
        let lingers = if untold { self.cfg.longest_linger() * 51 / 50 } else { 0 };
        self.reaction() + WATCH + polls + gap + 60 * MILLI + slow + lingers
    }

    /// Looks at everything.
    pub(super) fn watch(&mut self) {
        for key in 0..self.keys.len() {
            self.vacancy_may_begin(key);
            if self.is_believed(key) {
                self.vacancy_ends(key);
            } else if self.vacancy_is_excused(key) {
                self.keys[key].vacant_since = Some(self.now);
                self.keys[key].slow = true;
            }
            if self.keys[key].room_since.is_some() && self.room_is_excused(key) {
                self.keys[key].room_since = Some(self.now);
                self.keys[key].slow_until = self.now + SLOW;
            }
            self.check_wait(key);
        }
        self.check_requests();
        self.check_limits();
        if let Some(next) = self.check_end() {
            self.at(next, Event::Watch);
        }
    }

    pub(super) fn check_requests(&mut self) {
        let now = self.now;
        let mut late = None;
        let mut unnoticed = None;
        let slack = self.slack();
        let notice = self.cfg.longest_ttl() / 2 + self.reaction();
        for (index, request) in self.requests.iter().enumerate() {
            let client = &self.clients[request.client];
            let calm = now.saturating_sub(client.disturbed_at.max(request.started)) > slack
                && client.paused_until <= now;
            if request.is_waiting() && calm && !self.is_left(index) {
                let local = client.clock.at(now);
                let out_of_reach = !request.is_patient()
                    && now > request.started + 2 * SECOND + SECOND * 3
                    && client.disturbed_at + 5 * SECOND < now;
                if request.should_have_ended(local, Duration::from_nanos(slack)) || out_of_reach {
                    late = Some(index);
                }
            }
            if let (Some(broken), Some(cell)) = (request.broken, request.cell())
                && request.renewal == Renewal::Keep
                && request.picked_up
                && !request.is_looked_at_late()
                // No lease is renewed beyond the cap, so no command is sent.
                && request.max_hold.is_none()
                && self.is_able(request.client)
                && matches!(cell.peek(client.clock.at(now)), CellState::Until(_))
                && now > broken.max(client.disturbed_at) + notice
            {
                unnoticed = Some(index);
            }
        }
        if let Some(index) = late {
            self.fail("every request ends", format!("request {index} should have ended"));
        }
        if let Some(index) = unnoticed {
            self.fail("loss is noticed", format!("request {index} still believes to hold the lock"));
        }
    }
}
