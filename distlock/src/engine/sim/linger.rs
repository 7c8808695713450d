//! Leases that stay with a process between its sections: for how long, and where rules about them that are broken on
//! purpose show.

use std::sync::Arc;

use super::config::{Config, MILLI, Profile};
use super::mutants::{Case, case, crowded, driven};
use super::world::World;
use crate::lease_cell::LeaseCell;
use crate::protocol::mutant::Mutant;
use crate::protocol::{Token, token_text};

/// A lease that may stay with its process between sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lingering {
    client: usize,
    token: Token,
    /// On the server.
    lease_start: u64,
    /// When its first section ended.
    first_left: u64,
}

impl World {
    /// Sections follow each other on a lease for as long only as it may stay after the first of them: others may wait,
    /// and their asking may have been lost.
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
}

/// Several processes come now and then, and keep the lock for long.
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

/// Nobody hears that others want it.
fn untold(c: &mut Config) {
    lingering(c);
    c.push_loss = 1.0;
    c.push_late = 0.0;
}

fn untold_for_a_moment(c: &mut Config) {
    untold(c);
    c.lingers = vec![20];
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

/// Many wait behind each other.
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
