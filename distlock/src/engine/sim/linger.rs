//! Checks leases that stay with a process between its sections: their duration, and the rules about them that tests
//! break on purpose.

use std::sync::Arc;

use super::config::{Config, MILLI, Profile};
use super::mutants::{Case, case, crowded, driven};
use super::world::{Event, World};
use crate::lease_cell::LeaseCell;
use crate::protocol::mutant::Mutant;
use crate::protocol::{AcquireMode, AcquireReply, Token, op, token_text};

/// A lease that may stay with its process between sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lingering {
    client: usize,
    token: Token,
    /// The beginning of the lease on the server.
    lease_start: u64,
    /// When its first section ended.
    first_left: u64,
}

/// The first waiter in the queue behind a lease that no section used.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstBehind {
    client: usize,
    token: Token,
    asked: u64,
    /// The number of sections that had begun.
    sections: u64,
    keeper: usize,
}

impl World {
    /// Checks that sections follow each other on a lease only for as long as it may stay after the first of them: other
    /// processes may wait, and their requests for it may have been lost.
    pub(super) fn check_lingering(&mut self, c: usize, cell: &Arc<LeaseCell>, lease_start: u64) {
        let (now, key) = (self.now, self.key_index(&cell.key));
        let most = 60 * MILLI + self.cfg.longest_linger() * 51 / 50 + self.reaction();
        let Some(lingering) = self.keys[key].lingering else { return };
        let same = (lingering.client, lingering.token, lingering.lease_start) == (c, cell.token, lease_start);
        let calm = self.clients[c].disturbed_at < lingering.first_left && self.cfg.in_order();
        if same && calm && lease_start > 0 && now > lingering.first_left + most {
            let what = format!("a section began {} ms after the first", (now - lingering.first_left) / MILLI);
            self.fail("lingering", what);
        }
    }

    /// A section has ended.
    pub(super) fn lingering_begins(&mut self, key: usize, index: usize) {
        let (client, now) = (self.requests[index].client, self.now);
        let Some(token) = self.requests[index].left_with else { return };
        let lease_start = self.lease_start(key, &token_text(&self.clients[client].name, token));
        let lingering = Lingering { client, token, lease_start, first_left: now };
        let watch = &mut self.keys[key];
        let goes_on = |old: &Lingering| Lingering { first_left: now, ..*old } == lingering;
        watch.lingering = watch.lingering.filter(goes_on).or(Some(lingering));
    }

    /// Whether no process is cut off, stopped or late with a place that other processes only discover by their
    /// heartbeats.
    fn waits_undisturbed(&self) -> bool {
        let c = &self.cfg;
        let faults = c.push_breaks + c.forces + c.steps_back + c.steps_forward;
        let given_up = c.cancel + c.once + c.careless + c.unpolled + c.several + c.min_hold;
        let calm = c.is_whole() && c.in_order() && !c.is_short() && faults == 0 && given_up == 0.0;
        calm && c.pushes && c.pollers == 0 && self.fault_at == 0
    }

    /// Checks that the first waiter gets the lock soon after the lingering time is over, and not only at its heartbeat,
    /// even if the process that keeps it is late and every push is lost.
    pub(super) fn watch_first_behind(
        &mut self,
        key: usize,
        client: usize,
        op: &op::Acquire,
        reply: &AcquireReply,
    ) {
        let AcquireReply::Busy { holder, front: true, .. } = reply else { return };
        let (Some(linger), Some(kept)) = (holder.linger, self.keys[key].lingering) else { return };
        let keeper = &self.clients[kept.client].name;
        let in_use = *holder.text != *token_text(keeper, kept.token)
            || self.lease_start(key, &holder.text) != kept.lease_start
            || self.is_believed(key);
        if in_use || op.mode == AcquireMode::Try || !self.waits_undisturbed() {
            return;
        }
        let linger = u64::try_from(linger.as_nanos()).unwrap_or(u64::MAX);
        // The timer of the keeping process may be late, and then that of the waiter, which in the end asks every half a
        // second.
        let due = linger * 51 / 50 + self.reaction() + 500 * MILLI + self.cfg.late * MILLI;
        let (asked, sections) = (self.now, self.keys[key].sections);
        let waiter = FirstBehind { client, token: op.token, asked, sections, keeper: kept.client };
        self.after(due, Event::LingeringIsOver { key, waiter });
    }

    pub(super) fn lingering_is_over(&mut self, key: usize, waiter: FirstBehind) {
        let FirstBehind { client, token, asked, sections, keeper } = waiter;
        let able = |c: usize| self.is_able(c) && self.clients[c].disturbed_at < asked;
        let waits = self.clients[client].knows(&self.keys[key].name, token);
        if waits && able(client) && able(keeper) && self.keys[key].sections == sections {
            let what = format!(
                "token {} of process {client} waits for a lock that nobody has used for {} ms",
                token.0,
                (self.now - asked) / MILLI
            );
            self.fail("lingering", what);
        }
    }
}

/// Several processes use the lock rarely, and keep it for long.
fn lingering(c: &mut Config) {
    crowded(c);
    (c.linger, c.lingers) = (1.0, vec![5_000]);
    c.ttls = vec![20_000];
    c.longest_hold = 100;
    c.horizon = 6_000_000_000;
    (c.delay, c.notice) = ((50, 300), 10);
    (c.cancel, c.no_renew, c.max_hold, c.min_hold, c.extend) = (0.0, 0.0, 0.0, 0.0, 0.0);
    (c.preempt, c.misplaced, c.unpolled, c.careless) = (0.0, 0.0, 0.0, 0.0);
    c.shutdowns = 0;
}

/// No process learns that other processes want the lock.
fn untold(c: &mut Config) {
    lingering(c);
    c.push_loss = 1.0;
    c.push_late = 0.0;
}

fn untold_for_a_moment(c: &mut Config) {
    untold(c);
    c.lingers = vec![20];
}

/// No process gets a push, and timers may be later than the first questions of a waiter.
fn late_and_untold(c: &mut Config) {
    untold_for_a_moment(c);
    c.late = 400;
    (c.forever, c.bounded) = (1.0, 0.0);
}

/// The lease ends while the process keeps it.
fn beyond_the_lease(c: &mut Config) {
    untold(c);
    c.ttls = vec![400];
    c.requests = 40;
}

/// One section follows the other.
fn without_a_pause(c: &mut Config) {
    lingering(c);
    c.lingers = vec![20];
    c.clients = 1;
    c.requests = 100;
    c.longest_hold = 4;
    c.horizon = 1_000_000_000;
}

fn fenced(c: &mut Config) {
    without_a_pause(c);
    c.fenced = 1.0;
}

/// Many requests wait in a queue.
fn in_line(c: &mut Config) {
    lingering(c);
    c.clients = 5;
    c.requests = 30;
    c.horizon = 1_000_000_000;
}

fn often_deaf(c: &mut Config) {
    lingering(c);
    c.push_breaks = 8;
}

use Profile::{Alone, Calm, Deaf, Pushes};

pub(super) const CASES: &[Case] = &[
    case(Mutant::WantedIgnored, &[Calm], lingering),
    case(Mutant::WantedForgotten, &[Calm], lingering),
    case(Mutant::LingersAfterAWait, &[Calm], in_line),
    case(Mutant::LingersWithoutPushes, &[Deaf], often_deaf),
    case(Mutant::LingeringEndForgotten, &[Pushes], untold_for_a_moment),
    case(Mutant::LateKeeperLeftAlone, &[Calm], late_and_untold),
    case(Mutant::LingeringProlongs, &[Pushes], beyond_the_lease),
    case(Mutant::LingeringBeginsAnew, &[Alone], without_a_pause),
    case(Mutant::FenceUsedAgain, &[Alone], fenced),
];

pub(super) const DRIVER_CASES: &[Case] = &[
    driven(Mutant::WantedIgnored, &[Calm], lingering),
    driven(Mutant::LingersWithoutPushes, &[Deaf], often_deaf),
    driven(Mutant::LingeringEndForgotten, &[Pushes], untold_for_a_moment),
    driven(Mutant::FenceUsedAgain, &[Alone], fenced),
];
