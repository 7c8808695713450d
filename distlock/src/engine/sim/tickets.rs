//! Locks that are handed over to another process, or to the same one, and taken over by a later request.

use std::sync::Arc;
use std::time::Duration;

use super::config::{Config, MILLI, Profile};
use super::hand_over::Before;
use super::mutants::{Case, case, crowded, driven};
use super::workload::{Request, State, Waits};
use super::world::{Event, World};
use crate::backend::memory::server::Sender;
use crate::engine::{Command, ReleaseStarted};
use crate::lease_cell::LeaseCell;
use crate::protocol::mutant::Mutant;
use crate::protocol::{AcquireReply, RenewReply, ServerTime, Time, op, token_text};

/// What is known of a take-over.
pub(super) const EXECUTED: &str = "the server has executed it";
pub(super) const NOT_EXECUTED: &str = "the request ended as if it were not";

/// The longest time for which a ticket is on its way.
const WAY: u64 = 300 * MILLI;

fn handed_over(c: &mut Config) {
    crowded(c);
    c.hands_over = 0.5;
    c.linger = 0.0;
    c.min_hold = 0.0;
    c.fenced = 1.0;
}

/// Grants come again when their leases have been handed over.
fn granted_twice(c: &mut Config) {
    handed_over(c);
    (c.push_twice, c.push_late, c.push_loss) = (0.5, 0.5, 0.0);
    (c.longest_hold, c.notice) = (5, 10);
    c.ttls = vec![10_000];
}

/// Tickets are used again, in processes that have just left the key free for plain pollers.
fn used_again_in_gaps(c: &mut Config) {
    handed_over(c);
    (c.hands_over, c.used_twice) = (0.3, 1.0);
    c.tuning.poll_gap = Duration::from_millis(200);
    c.tuning.poll_gap_interval = Duration::from_millis(100);
    (c.longest_hold, c.notice, c.cancel) = (20, 10, 0.0);
    c.ttls = vec![10_000];
}

/// Keys of requests for several keys are taken over while the command for all of them is in flight.
fn taken_over_from_several(c: &mut Config) {
    handed_over(c);
    (c.keys, c.clients, c.requests) = (3, 3, c.requests.max(40));
    (c.several, c.hands_over, c.used_twice) = (0.5, 1.0, 1.0);
    (c.delay, c.notice) = ((10_000, 30_000), 10);
    (c.longest_hold, c.cancel, c.fenced) = (50, 0.0, 0.0);
    c.ttls = vec![10_000];
}

/// Links break while locks are taken over.
fn taken_over_without_a_reply(c: &mut Config) {
    handed_over(c);
    (c.hands_over, c.cancel) = (1.0, 0.0);
    (c.longest_hold, c.notice) = (5, 10);
    c.ttls = vec![10_000];
}

/// Locks that are taken over would stay with their process after the section.
fn kept_though_wanted(c: &mut Config) {
    handed_over(c);
    (c.linger, c.lingers) = (1.0, vec![5_000]);
    (c.forever, c.cancel, c.notice) = (1.0, 0.0, 10);
    c.longest_hold = 50;
    c.ttls = vec![10_000];
}

/// Many wait in the process that hands over, and some of its holders are dropped meanwhile.
fn handed_over_in_vain(c: &mut Config) {
    handed_over(c);
    c.hands_over = 1.0;
    (c.longest_hold, c.notice) = (5, 10);
    (c.cancel, c.once) = (0.0, 0.0);
    c.ttls = vec![10_000];
}

pub(super) const CASES: &[Case] = &[
    case(Mutant::HandedOverReleased, &[Profile::Calm, Profile::Links], handed_over),
    case(Mutant::ReplacedWithoutCompare, &[Profile::Calm, Profile::Short, Profile::Crashes], handed_over),
    case(Mutant::HandedOverForgotten, &[Profile::Pushes], granted_twice),
    case(Mutant::TakeOverAcquires, &[Profile::Calm], used_again_in_gaps),
    case(
        Mutant::UnansweredTakeOverUnavailable,
        &[Profile::Links, Profile::Crashes],
        taken_over_without_a_reply,
    ),
    case(Mutant::TakenOverLingers, &[Profile::Calm], kept_though_wanted),
    case(Mutant::FollowerWaitsAlone, &[Profile::Calm], taken_over_from_several),
];

/// Cases with the driver's hand-over, which renews the lease for the last time.
pub(super) const DRIVER_CASES: &[Case] = &[
    driven(Mutant::HandedOverReleased, &[Profile::Calm, Profile::Links], handed_over),
    driven(Mutant::ReplacedWithoutCompare, &[Profile::Calm, Profile::Short, Profile::Crashes], handed_over),
    driven(Mutant::HandedOverForgotten, &[Profile::Pushes], granted_twice),
    driven(Mutant::TakeOverAcquires, &[Profile::Calm], used_again_in_gaps),
    driven(Mutant::FollowerWaitsAlone, &[Profile::Calm], taken_over_from_several),
    driven(Mutant::LastRenewalPassedOn, &[Profile::Calm, Profile::Links], handed_over_in_vain),
    driven(Mutant::HandedOverUnconfirmed, &[Profile::Calm, Profile::Links], handed_over),
];

impl World {
    /// A holder hands the lock over instead of releasing it.
    pub(super) fn hand_over(&mut self, c: usize, local: Time, index: usize, cell: &Arc<LeaseCell>) {
        let (handed_over, effects) =
            self.clients[c].engine.on_key(local, &cell.key, |step| step.hand_over(cell));
        note!(self, "process {c}: request {index} hands over: {handed_over:?}");
        if !matches!(handed_over, ReleaseStarted::WasLost(_)) {
            self.ticket_is_out(c, index, cell, None);
        }
        self.perform(c, effects, None);
    }

    /// Notes that a lock was handed over, for the `promised` time, if that is known.
    pub(super) fn ticket_is_out(
        &mut self,
        c: usize,
        index: usize,
        cell: &Arc<LeaseCell>,
        promised: Option<ServerTime>,
    ) {
        let owner: Arc<str> = token_text(&self.clients[c].name, cell.token).into();
        let key = self.requests[index].key;
        let until = self.keys[key].leases.iter().find(|lease| lease.text == owner).map(|lease| lease.until);
        let undisturbed = self.fault_at == 0 && self.stepped_at == 0 && self.keys[key].fault_at == 0;
        if let Some((until, promised)) = until.zip(promised)
            && undisturbed
            && until < promised
        {
            self.fail("hand-over", format!("{owner} has a ticket for less than its ttl"));
        }
        self.tickets.insert(owner.clone(), until);
        self.nobody_was_told(key);
        self.plan_take_over(index, owner.clone(), WAY);
        if self.chance(self.cfg.used_twice) {
            self.plan_take_over(index, owner, 3 * WAY);
        }
    }

    /// Plans a request with the ticket of `owner`, which some process gets within the time `way`.
    fn plan_take_over(&mut self, index: usize, owner: Arc<str>, way: u64) {
        let client = self.kernel.rng.usize(0..self.clients.len());
        let next = Request {
            client,
            // The chain of hand-overs ends at some request.
            hands_over: self.chance(0.5),
            replaces: Some(owner),
            own_lease: false,
            waits: Waits::Forever,
            // No request waits before it.
            max_waiters: None,
            state: State::Planned,
            life: None,
            ticket: None,
            picked_up: false,
            was_lost: None,
            expired_since: None,
            broken: None,
            left_with: None,
            begun: None,
            longest: None,
            extended_until: Time(0),
            ..self.requests[index].clone()
        };
        self.requests.push(next);
        // The run was over until the driver reported the hand-over.
        self.quiet_since = None;
        let way = self.rng.u64(0..way);
        self.after(way, Event::Request(self.requests.len() - 1));
    }

    /// Executes a renewal as stores do whose leases end with a session: after its last renewal, a lease belongs to the
    /// store alone.
    pub(super) fn carry_out_renewal(&mut self, from: &Sender<'_>, op: op::Renew) -> RenewReply {
        let text: Arc<str> = token_text(from.client, op.token).into();
        if !op.last && self.renewed_last.contains(&text) {
            return RenewReply::NotHeld;
        }
        let reply = self.server.renew(self.server_time(), from, &op);
        if op.last && reply != RenewReply::NotHeld {
            self.renewed_last.insert(text);
        }
        reply
    }

    /// No task holds a lease that belongs to the store alone.
    pub(super) fn check_not_passed_on(&mut self, c: usize, index: usize, cell: &LeaseCell) {
        let text = token_text(&self.clients[c].name, cell.token);
        if self.renewed_last.contains(&*text) {
            self.fail("hand-over", format!("request {index} got {text} after its last renewal"));
        }
    }

    /// The lock was free, or someone else's, and is held by `text`.
    pub(super) fn was_acquired(&mut self, command: &Command, text: &str) {
        if let Command::Replace(..) = command {
            self.replaced.insert(text.into());
        } else {
            self.replaced.remove(text);
        }
    }

    /// A ticket gives the lock only from the one who handed it over: a free lock is not acquired with it.
    pub(super) fn check_taken_over(&mut self, c: usize, index: usize, cell: &LeaseCell) {
        let text = token_text(&self.clients[c].name, cell.token);
        if self.requests[index].replaces.is_some() && !self.replaced.contains(&*text) {
            self.fail("hand-over", format!("request {index} has a ticket, and {text} took nothing over"));
        }
    }

    /// Whether another request of its process came first with a ticket for the same key.
    pub(super) fn is_second_to_replace(&self, index: usize) -> bool {
        let mine = &self.requests[index];
        let is_first = |other: &Request| {
            other.replaces.is_some()
                && (other.client, other.key) == (mine.client, mine.key)
                && (1..=mine.started).contains(&other.started)
        };
        let mut others = self.requests.iter().enumerate().filter(|(other, _)| *other != index);
        mine.replaces.is_some() && others.any(|(_, other)| is_first(other))
    }

    /// A request with a ticket ends as unavailable or closed only if no command of it is executed, ever. `what` is
    /// known of it.
    pub(super) fn take_over_ended(&mut self, client: usize, holder: &Arc<str>, what: &'static str) {
        let same = |request: &&Request| request.client == client && request.replaces.as_ref() == Some(holder);
        // It is not known which of several requests a command belongs to.
        if self.requests.iter().filter(same).count() == 1
            && let Some(other) = self.take_overs.insert((client, holder.clone()), what)
            && other != what
        {
            self.fail("hand-over", format!("process {client} replaces {holder}: {what}, but {other}"));
        }
    }

    /// A ticket is good until it is used or its lease ends.
    pub(super) fn check_replaced(
        &mut self,
        client: usize,
        key: usize,
        before: &Before,
        op: &op::Replace,
        reply: &AcquireReply,
    ) {
        let was_held = before.leases.iter().any(|(text, ..)| *text == op.holder);
        match (reply, self.tickets.get(&op.holder).copied().flatten()) {
            (AcquireReply::NotHeld, Some(until)) if self.server_time() < until => {
                self.fail(
                    "hand-over",
                    format!("{} has handed over, and the lock was free in between", op.holder),
                );
            }
            (AcquireReply::Acquired { .. }, _) if !was_held => {
                self.fail("hand-over", format!("{} did not hold what was taken over", op.holder));
            }
            (AcquireReply::Acquired { .. }, _) => {
                self.take_over_ended(client, &op.holder, EXECUTED);
                // The new holder knows no earlier run of hand-offs.
                self.keys[key].run_since = None;
                self.tickets.insert(op.holder.clone(), None).map_or((), drop)
            }
            _ => {}
        }
    }
}
