//! Checks of the server's actions, and of their later traces.

use std::sync::Arc;

use super::config::{Level, MILLI, Profile, SECOND, Use};
use super::oracle::{Lease, Who};
use super::workload::Request;
use super::world::{Event, World};
use crate::backend::memory::server::{HOLD, News, Note, Queued};
use crate::error::LostReason;
use crate::lease_cell::CellState;
use crate::protocol::{
    AcquireMode, AcquireReply, LockKind, ReleaseReply, ServerTime, Token, op, parse_owner, token_text,
};

/// The state of a key on the server before a command.
pub(super) struct Before {
    pub(super) leases: Vec<(Arc<str>, LockKind, ServerTime)>,
    pub(super) queue: Vec<Queued>,
    nobody: Arc<str>,
}

/// Whether one more holder of `kind` can hold the lock together with these.
fn has_room(inside: impl Iterator<Item = LockKind>, kind: LockKind) -> bool {
    let mut room = match kind {
        LockKind::Exclusive => 1,
        LockKind::Shared => usize::MAX,
        LockKind::Limited { max_holders: limit } => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    for other in inside {
        room = if kind == LockKind::Exclusive || other != kind { 0 } else { room.saturating_sub(1) };
    }
    room > 0
}

impl World {
    pub(super) fn before(&self, key: usize) -> Before {
        let server_time = self.server_time();
        let name = &self.keys[key].name;
        Before {
            leases: self.server.leases(server_time, name),
            queue: self.server.queue(server_time, name),
            nobody: name.clone(),
        }
    }

    pub(super) fn value_may_have_changed(&mut self, key: usize) {
        let server_time = self.server_time();
        let now = self.now;
        let name = &self.keys[key].name;
        let leases = self.server.leases(server_time, name);
        let is_open = leases.iter().all(|(_, kind, _)| *kind == LockKind::Shared)
            && self.server.queue(server_time, name).is_empty();
        let watch = &mut self.keys[key];
        watch.open_since = is_open.then_some(watch.open_since.unwrap_or(now));
        if leases.is_empty() || watch.leases.iter().any(|lease| lease.until <= server_time) {
            watch.run_since = None;
        }
        let leases = leases.into_iter().map(|(text, _, until)| {
            let old = watch.leases.iter().find(|old| old.text == text && old.until > server_time);
            let since = old.map_or(now, |old| old.since);
            Lease { text, since, until }
        });
        watch.leases = leases.collect();
    }

    /// Checks that a released lock goes to the first reachable waiter in the queue, or is left free for a moment.
    pub(super) fn check_hand_over(
        &mut self,
        key: usize,
        before: &Before,
        left: &str,
        reply: ReleaseReply,
        notes: &[Note],
    ) {
        for note in notes {
            if let News::Grant { server_time, .. } = note.news {
                self.check_run(key, server_time);
            }
        }
        let cancelled = reply == ReleaseReply::Cancelled;
        if reply != (ReleaseReply::Released { gap: false }) && !cancelled {
            return;
        }
        let server_time = self.server_time();
        let after = self.server.leases(server_time, &self.keys[key].name);
        // The holders now: the earlier ones without the one that released, and the places that `min_hold` keeps.
        let was_there = |text: &str| before.leases.iter().any(|(old, ..)| **old == *text) && *text != *left;
        let (mut inside, given): (Vec<_>, Vec<_>) = after
            .iter()
            .map(|(text, kind, _)| (text, *kind))
            .partition(|(text, _)| was_there(text) || text.starts_with(HOLD));
        if cancelled && inside.is_empty() {
            return;
        }
        let mut expected = Vec::new();
        for entry in &before.queue {
            let text: Arc<str> = token_text(&entry.client, entry.token).into();
            if *text == *left {
                continue;
            }
            if !has_room(inside.iter().map(|(_, kind)| *kind), entry.kind) {
                break;
            }
            if !entry.reachable {
                continue;
            }
            inside.push((&before.nobody, entry.kind));
            expected.push((text, entry.client.clone(), entry.token));
        }
        let same =
            given.len() == expected.len() && given.iter().all(|g| expected.iter().any(|e| e.0 == *g.0));
        if !same {
            let what = format!("{given:?} got the lock after {left}, {expected:?} was next");
            self.fail("hand-off", what);
            return;
        }
        for (_, client, token) in expected {
            self.check_receiver(&client, token, key);
        }
    }

    /// A process got the lock without a hand-over: no other process may have waited longer, unless the lock was free.
    pub(super) fn check_overtaking(&mut self, before: &Before, text: &str, reply: &AcquireReply) {
        let came_in = matches!(reply, AcquireReply::Acquired { .. });
        let queued = |entry: &&Queued| token_text(&entry.client, entry.token) != text;
        if came_in
            && !before.leases.is_empty()
            && let Some(first) = before.queue.first().filter(queued)
        {
            let what = format!("{text} passed {} of {}", first.token.0, first.client);
            self.fail("overtaking", what);
        }
    }

    /// Checks that a waiter for a lock with several holders asks again when the first of their leases may end.
    pub(super) fn watch_ask(
        &mut self,
        key: usize,
        c: usize,
        before: &Before,
        op: &op::Acquire,
        reply: &AcquireReply,
    ) {
        let op::Acquire { token, kind: LockKind::Limited { max_holders: limit }, mode, .. } = *op else {
            return;
        };
        self.keys[key].asked.insert((c, token), self.kernel.now);
        let inside =
            before.leases.iter().filter(|(_, kind, _)| *kind == LockKind::Limited { max_holders: limit });
        let Some(first) = inside.map(|(.., until)| *until).min() else { return };
        if !matches!(reply, AcquireReply::Busy { .. }) || mode == AcquireMode::Try || self.cfg.is_short() {
            return;
        }
        let left = (first.0 - self.server_time().0) * 1_000;
        let due = left + left / 50 + self.reaction();
        let asked = self.now;
        self.after(due, Event::AskIsDue { key, client: c, token, asked });
    }

    pub(super) fn ask_is_due(&mut self, key: usize, c: usize, token: Token, asked: u64) {
        let server_time = self.server_time();
        let client = &self.clients[c];
        let name = client.name.clone();
        let undisturbed = client.disturbed_at < asked && self.is_able(c) && self.cfg.in_order();
        let queue = self.server.queue(server_time, &self.keys[key].name);
        let waits = queue.iter().any(|entry| entry.token == token && entry.client == name)
            && self.clients[c].knows(&self.keys[key].name, token);
        if undisturbed && waits && self.keys[key].asked.get(&(c, token)) == Some(&asked) {
            let what = format!("token {} of {name} lets a place go by", token.0);
            self.fail("asking in time", what);
        }
    }

    pub(super) fn check_run(&mut self, key: usize, server_time: ServerTime) {
        // A lock with several holders has no gaps: plain pollers wait for its last holder.
        if self.keys[key].used_for != Use::Exclusive {
            return;
        }
        let every = u64::try_from(self.cfg.tuning.poll_gap_interval.as_micros()).unwrap_or(0);
        let since = *self.keys[key].run_since.get_or_insert(server_time);
        let pushed = self.cfg.pushes
            && !self.cfg.is_short()
            && self.fault_at == 0
            // A poll that arrives behind the wait that was sent after it keeps a place that no push is sent to: its
            // owner finds by its heartbeat that it was granted, and not since when the lock was handed on.
            && self.cfg.in_order()
            // A request for several keys that gives some of them up does not know when their run of hand-offs began.
            && (self.cfg.several == 0.0 || self.cfg.profile != Profile::Crowd)
            // A lost lease that ends begins a new run.
            && self.cfg.push_loss + self.cfg.push_late + self.cfg.no_renew + self.cfg.max_hold == 0.0;
        let whole = self.cfg.is_whole() && self.cfg.push_breaks + self.cfg.steps_back + self.cfg.forces == 0;
        let most = every * 5 / 2 + self.cfg.longest_hold * 1000 + 200_000;
        if pushed && whole && !self.cfg.tuning.poll_gap.is_zero() && server_time.0 > since.0 + most {
            self.fail("gap", format!("none for {} ms", (server_time.0 - since.0) / 1000));
        }
    }

    /// Without faults no process is granted a lock that it does not want.
    pub(super) fn check_receiver(&mut self, client: &str, token: Token, key: usize) {
        let orderly = self.cfg.is_whole() && self.cfg.in_order();
        if !orderly {
            return;
        }
        let found = self.clients.iter().position(|c| c.alive && *c.name == *client);
        let key = self.keys[key].name.clone();
        let wanted = found.is_some_and(|c| self.clients[c].knows(&key, token) || self.is_leaving(c, token));
        if !wanted {
            self.fail("hand-off", format!("token {} of {client} was given the lock, and is gone", token.0));
        }
    }

    /// Checks later that the receiver of a grant has used it.
    pub(super) fn watch_grant(&mut self, key: usize, c: usize, token: Token) {
        let text: Arc<str> = crate::protocol::token_text(&self.clients[c].name, token).into();
        if let Some(since) =
            self.keys[key].leases.iter().find(|lease| lease.text == text).map(|lease| lease.since)
            && self.cfg.push_late == 0.0
            && self.cfg.in_order()
        {
            let late = self.reaction();
            self.after(late, Event::GrantIsOld { key, text, client: c, until: since });
        }
    }

    pub(super) fn grant_is_old(&mut self, key: usize, text: &Arc<str>, c: usize, since: u64) {
        let Some(lease) = self.keys[key].leases.iter().find(|lease| lease.text == *text) else { return };
        let server_time = self.server_time();
        let alive =
            lease.until > server_time && self.server.value(server_time, &self.keys[key].name).is_some();
        let same_lease = lease.since == since;
        let undisturbed = self.is_able(c) && self.clients[c].disturbed_at < since;
        let Some((name, token)) = parse_owner(text) else { return };
        let same_life = *self.clients[c].name == *name;
        let wanted = self.clients[c].knows(&self.keys[key].name, token) || self.tickets.contains_key(text);
        let body_goes_on = self
            .requests
            .iter()
            .any(|request| request.client == c && request.cell().is_some_and(|cell| cell.token == token));
        if same_lease
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

    /// A time in which a push is delivered, and its answer too.
    pub(super) fn reaction(&self) -> u64 {
        // The driver takes over from callers that are not polled, after two ticks whose alarms may be late.
        let taken_over =
            if self.cfg.level == Level::Driver && self.cfg.unpolled > 0.0 { 40 * MILLI } else { 0 };
        let late = (50 + self.cfg.late) * MILLI + taken_over;
        8 * self.cfg.delay.1 * 1000 + 6 * self.cfg.notice * 1000 + late
    }

    /// Whether the lease expired before its release arrived, which then hands it on to no waiter.
    pub(super) fn has_run_out(&self, key: usize, name: &Arc<str>, token: Token) -> bool {
        self.requests.iter().any(|request| {
            let was_left = request.left_with == Some(token) && request.was_lost == Some(LostReason::Expired);
            // The caller has not noticed the grant, so the loss is not reported to it.
            let was_given_back = !request.picked_up && request.cell().is_some_and(|cell| cell.token == token);
            request.key == key && *self.clients[request.client].name == **name && (was_left || was_given_back)
        })
    }

    pub(super) fn lease_was_left(&mut self, key: usize, name: &Arc<str>, token: Token) {
        let found = self.requests.iter().filter(|request| {
            request.key == key
                && request.left_with == Some(token)
                && *self.clients[request.client].name == **name
        });
        let ends = |request: &Request| {
            let begun = request.begun.is_some() || request.group.is_none();
            let hold = request.min_hold.filter(|_| begun && request.keeps)?;
            let hold = u64::try_from(hold.mul_f64(0.99).as_nanos()).unwrap_or(0);
            Some((request.acquired + hold).saturating_sub(2 * MILLI))
        };
        let found: Vec<&Request> = found.collect();
        let Some(request) = found.iter().max_by_key(|request| request.acquired) else { return };
        let (kind, last) = (request.kind, ends(request));
        if kind == LockKind::Exclusive {
            self.keys[key].min_until = last.unwrap_or(self.keys[key].min_until);
        } else if kind == LockKind::Shared {
            // A group of readers keeps the longest time that any of them asked for.
            let all = found.iter().filter_map(|request| ends(request)).max();
            self.keys[key].kept.extend(all.map(|until| (kind, until)));
        } else {
            self.keys[key].kept.extend(last.map(|until| (kind, until)));
        }
    }

    /// The leases of all holders were deleted.
    pub(super) fn leases_were_broken(&mut self, key: usize) {
        for lease in self.keys[key].leases.clone() {
            self.lease_was_broken(key, &lease.text);
            if let Some(until) = self.tickets.get_mut(&lease.text) {
                *until = None;
            }
        }
        self.forget_kept(key);
    }

    pub(super) fn forget_kept(&mut self, key: usize) {
        self.keys[key].min_until = 0;
        self.keys[key].kept.clear();
    }

    fn lease_was_broken(&mut self, key: usize, text: &str) {
        let now = self.now;
        for holder in self.keys[key].holders.clone() {
            let Who::Request(index) = holder.who else { continue };
            let client = self.requests[index].client;
            let Some(cell) = self.requests[index].cell() else { continue };
            if crate::protocol::token_text(&self.clients[client].name, cell.token) == text {
                self.requests[index].broken.get_or_insert(now);
            }
        }
    }

    pub(super) fn everything_was_lost(&mut self) {
        self.fault_at = self.now;
        for key in 0..self.keys.len() {
            self.leases_were_broken(key);
        }
    }

    pub(super) fn clock_was_set(&mut self, by: i64) {
        for key in &mut self.keys {
            key.run_since = None;
            key.slow = true;
            if by > 0 {
                key.min_until = 0;
                key.kept.clear();
            }
        }
        // A lease that was over before the step may seem to last.
        self.tickets.values_mut().for_each(|until| *until = None);
        let first = self.stepped_at == 0;
        for c in &mut self.clients {
            c.step_seen = false;
            c.knew_the_time = c.knows_the_time && (first || c.knew_the_time);
            c.disturbed_at = c.disturbed_at.max(self.kernel.now);
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

    /// Checks the state after a reply that says that the lock was acquired again.
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
