//! What must be true of what the server does, and of what is left of it later.

use std::sync::Arc;

use super::config::{MILLI, SECOND};
use super::oracle::Who;
use super::world::{Event, World};
use crate::backend::memory::server::{HOLD, News, Note, Queued, owner};
use crate::backend::{Reply, ServerTime, Token};
use crate::engine::cell::CellState;

impl World {
    pub(super) fn value_may_have_changed(&mut self, key: usize) {
        let us = self.us();
        let now = self.now;
        let value = self.server.value(us, &self.keys[key].name);
        let watch = &mut self.keys[key];
        let expired = watch.value.as_ref().is_some_and(|(_, _, until)| *until <= us);
        if value.is_none() || expired {
            watch.run_since = None;
        }
        watch.value = value.map(|(text, until)| match &watch.value {
            Some((old, since, old_until)) if *old == text && *old_until > us => (text, *since, until),
            _ => (text, now, until),
        });
    }

    /// A released lock goes to the first in the queue who can be reached, or is left free for a moment.
    pub(super) fn check_hand_over(&mut self, key: usize, queue: &[Queued], reply: &Reply, notes: &[Note]) {
        for note in notes {
            if let News::Grant { us, .. } = note.news {
                self.check_run(key, us);
            }
        }
        let Reply::Released { gap: false } = reply else { return };
        let us = self.us();
        let value = self.server.value(us, &self.keys[key].name);
        if value.as_ref().is_some_and(|(text, _)| **text == *HOLD) {
            return;
        }
        let first = queue.iter().find(|entry| entry.reachable);
        let given = value.as_ref().and_then(|(text, _)| owner(text));
        let expected = first.map(|entry| (&*entry.client, entry.token));
        if given != expected {
            self.fail("hand-off", format!("{given:?} got the lock, {expected:?} was next"));
            return;
        }
        if let Some((client, token)) = given {
            let (client, token) = (client.to_owned(), token);
            self.check_receiver(&client, token, key);
        }
    }

    pub(super) fn check_run(&mut self, key: usize, us: ServerTime) {
        let every = u64::try_from(self.cfg.tuning.every.as_micros()).unwrap_or(0);
        let since = *self.keys[key].run_since.get_or_insert(us);
        let pushed = self.cfg.pushes
            && !self.cfg.is_short()
            && self.fault_at == 0
            // The end of a lease that was lost begins a new run.
            && self.cfg.push_loss + self.cfg.push_late + self.cfg.no_renew + self.cfg.max_hold == 0.0;
        let whole = self.cfg.is_whole() && self.cfg.push_breaks + self.cfg.steps_back + self.cfg.forces == 0;
        let most = every * 5 / 2 + self.cfg.longest_hold * 1000 + 200_000;
        if pushed && whole && !self.cfg.tuning.gap.is_zero() && us.0 > since.0 + most {
            self.fail("gap", format!("none for {} ms", (us.0 - since.0) / 1000));
        }
    }

    /// In a quiet world nobody is given what nobody wants.
    pub(super) fn check_receiver(&mut self, client: &str, token: Token, key: usize) {
        let orderly = self.cfg.is_whole() && self.cfg.in_order();
        if !orderly {
            return;
        }
        let found = self.clients.iter().position(|c| c.alive && *c.name == *client);
        let key = self.keys[key].name.clone();
        let wanted =
            found.is_some_and(|c| self.clients[c].engine.knows(&key, token) || self.is_leaving(c, token));
        if !wanted {
            self.fail("hand-off", format!("token {} of {client} was given the lock, and is gone", token.0));
        }
    }

    /// A grant is on its way, and must not be wasted.
    pub(super) fn watch_grant(&mut self, key: usize, c: usize, token: Token) {
        let text: Arc<str> = crate::backend::token_text(&self.clients[c].name, token).into();
        if let Some((found, since, _)) = self.keys[key].value.clone()
            && found == text
            && self.cfg.push_late == 0.0
            && self.cfg.in_order()
        {
            let late = self.reaction();
            self.after(late, Event::GrantIsOld { key, text, client: c, until: since });
        }
    }

    pub(super) fn grant_is_old(&mut self, key: usize, text: &Arc<str>, c: usize, since: u64) {
        let Some((found, found_since, _)) = &self.keys[key].value else { return };
        let us = self.us();
        let alive = self.server.value(us, &self.keys[key].name).is_some();
        let undisturbed = self.is_able(c) && self.clients[c].disturbed_at < since;
        let Some((name, token)) = owner(text) else { return };
        let same_life = *self.clients[c].name == *name;
        let wanted = self.clients[c].engine.knows(&self.keys[key].name, token);
        let body_goes_on = self
            .requests
            .iter()
            .any(|request| request.client == c && request.cell().is_some_and(|cell| cell.token == token));
        if found == text
            && *found_since == since
            && alive
            && undisturbed
            && same_life
            && !wanted
            && !body_goes_on
            && !self.is_leaving(c, token)
        {
            self.fail("wasted claim", format!("{text} was given the lock, and nobody gives it back"));
        }
    }

    /// Enough for a push to be delivered, and its answer too.
    pub(super) fn reaction(&self) -> u64 {
        8 * self.cfg.delay.1 * 1000 + 6 * self.cfg.notice * 1000 + 60 * MILLI
    }

    pub(super) fn lease_was_left(&mut self, key: usize, name: &Arc<str>, token: Token) {
        let found = self.requests.iter().filter(|request| {
            request.key == key
                && request.left_with == Some(token)
                && *self.clients[request.client].name == **name
        });
        let Some(request) = found.max_by_key(|request| request.acquired) else { return };
        if let Some(hold) = request.min_hold
            && !request.was_lost
        {
            let hold = u64::try_from(hold.mul_f64(0.99).as_nanos()).unwrap_or(0);
            self.keys[key].min_until = (request.acquired + hold).saturating_sub(2 * MILLI);
        }
    }

    pub(super) fn lease_was_broken(&mut self, key: usize, text: &str) {
        let now = self.now;
        for holder in self.keys[key].holders.clone() {
            let Who::Request(index) = holder.who else { continue };
            let client = self.requests[index].client;
            let Some(cell) = self.requests[index].cell() else { continue };
            if crate::backend::token_text(&self.clients[client].name, cell.token) == text {
                self.requests[index].broken.get_or_insert(now);
            }
        }
    }

    pub(super) fn everything_was_lost(&mut self) {
        self.fault_at = self.now;
        for key in 0..self.keys.len() {
            if let Some((text, ..)) = self.keys[key].value.clone() {
                self.lease_was_broken(key, &text);
            }
            self.keys[key].min_until = 0;
        }
    }

    pub(super) fn clock_was_set(&mut self, by: i64) {
        for key in &mut self.keys {
            key.run_since = None;
            key.slow = true;
            if by > 0 {
                key.min_until = 0;
            }
        }
        let first = self.stepped_at == 0;
        for c in &mut self.clients {
            c.step_seen = false;
            c.knew_the_time = c.knows_the_time && (first || c.knew_the_time);
            c.disturbed_at = c.disturbed_at.max(self.now);
        }
        self.stepped_at = self.now;
        if by > 0 {
            self.fault_at = self.now;
        }
        for key in 0..self.keys.len() {
            self.value_may_have_changed(key);
        }
    }

    pub(super) fn late_arrival(&mut self, job: usize) {
        let key = self.key_index(&self.jobs[job].context.key.clone());
        self.keys[key].late_until = self.now + 6 * SECOND;
    }

    /// A reply that says that the lock was taken anew has been dealt with.
    pub(super) fn check_taken_anew(&mut self, c: usize, token: Token, applied_at: u64) {
        let local = self.clients[c].clock.at(self.now);
        let revived = self.requests.iter().position(|request| {
            request.client == c
                && request.broken.is_some_and(|broken| broken < applied_at)
                && request.cell().is_some_and(|cell| {
                    cell.token == token && matches!(cell.peek(local), CellState::Until(_))
                })
        });
        if let Some(index) = revived {
            self.fail("loss is noticed", format!("request {index} was revived by a late command"));
        }
    }
}
