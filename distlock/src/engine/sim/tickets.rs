//! Locks that are handed over to another process, or to the same one, and taken over by a later request.

use std::sync::Arc;

use super::config::{Config, MILLI, Profile};
use super::hand_over::Before;
use super::mutants::{Case, case, crowded};
use super::workload::{Request, State, Waits};
use super::world::{Event, World};
use crate::engine::Release;
use crate::lease_cell::LeaseCell;
use crate::protocol::mutant::Mutant;
use crate::protocol::{AcquireReply, Time, op, token_text};

/// A ticket takes so long at most.
const WAY: u64 = 300 * MILLI;

fn handed_over(c: &mut Config) {
    crowded(c);
    c.hands_over = 0.5;
    c.linger = 0.0;
    c.min_hold = 0.0;
    c.fenced = 1.0;
}

pub(super) const CASES: &[Case] = &[
    case(Mutant::HandedOverReleased, &[Profile::Calm, Profile::Links], handed_over),
    case(Mutant::ReplacedWithoutCompare, &[Profile::Calm, Profile::Short, Profile::Crashes], handed_over),
];

impl World {
    /// A holder hands the lock over instead of releasing it.
    pub(super) fn hand_over(&mut self, c: usize, local: Time, index: usize, cell: &Arc<LeaseCell>) {
        let (handed_over, effects) =
            self.clients[c].engine.on_key(local, &cell.key, |step| step.hand_over(cell));
        note!(self, "process {c}: request {index} hands over: {handed_over:?}");
        if !matches!(handed_over, Release::WasLost(_)) {
            let owner: Arc<str> = token_text(&self.clients[c].name, cell.token).into();
            let key = self.requests[index].key;
            let until =
                self.keys[key].leases.iter().find(|lease| lease.text == owner).map(|lease| lease.until);
            self.tickets.insert(owner.clone(), until);
            self.nobody_was_told(key);
            let client = self.kernel.rng.usize(0..self.clients.len());
            let next = Request {
                client,
                // It ends somewhere.
                hands_over: self.chance(0.5),
                replaces: Some(owner),
                waits: Waits::Forever,
                state: State::Planned,
                life: None,
                ticket: None,
                picked_up: false,
                was_lost: None,
                broken: None,
                left_with: None,
                begun: None,
                longest: None,
                extended_until: Time(0),
                ..self.requests[index].clone()
            };
            self.requests.push(next);
            let way = self.rng.u64(0..WAY);
            self.after(way, Event::Request(self.requests.len() - 1));
        }
        self.perform(c, effects, None);
    }

    /// A ticket is good until it is used or its lease ends.
    pub(super) fn check_replaced(&mut self, before: &Before, op: &op::Replace, reply: &AcquireReply) {
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
                self.tickets.insert(op.holder.clone(), None).map_or((), drop)
            }
            _ => {}
        }
    }
}
