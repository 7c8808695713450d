//! What must be true, whatever happens.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::config::{MILLI, Profile};
use super::workload::Waits;
use super::world::World;
use crate::backend::ServerTime;
use crate::engine::cell::{CellState, HoldCell};
use crate::engine::{Renewal, Verdict};
use crate::error::LostReason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Request(usize),
    /// A plain poller, which believes that it holds the lock until this time.
    Poller {
        index: usize,
        until: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) who: Who,
    /// When its lease began on the server.
    lease_start: u64,
}

/// What the oracle knows of a key.
#[derive(Debug)]
pub(super) struct KeyWatch {
    pub(super) name: Arc<str>,
    pub(super) holders: Vec<Holder>,
    pub(super) last_fence: u64,
    pub(super) fences: HashSet<u64>,
    /// What stands in the key on the server: text, since when (true time), until when (server's time).
    pub(super) value: Option<(Arc<str>, u64, ServerTime)>,
    /// Since when it has been handed on without a gap.
    pub(super) run_since: Option<ServerTime>,
    /// The latest fault that the promises do not cover.
    pub(super) fault_at: u64,
    /// A release with `min_hold` keeps it taken until then.
    pub(super) min_until: u64,
    /// Since when nobody has held it, although nothing excuses that.
    pub(super) vacant_since: Option<u64>,
    /// A push was lost or something else happened that waiters only find out by their heartbeat.
    pub(super) slow: bool,
    /// An abandoned command arrived late.
    pub(super) late_until: u64,
}

impl KeyWatch {
    pub(super) fn new(name: Arc<str>) -> Self {
        KeyWatch {
            name,
            holders: Vec::new(),
            last_fence: 0,
            fences: HashSet::new(),
            value: None,
            run_since: None,
            fault_at: 0,
            min_until: 0,
            vacant_since: None,
            slow: false,
            late_until: 0,
        }
    }
}

impl World {
    pub(super) fn key_index(&self, key: &Arc<str>) -> usize {
        self.keys.iter().position(|watch| watch.name == *key).unwrap_or(0)
    }

    // Who believes to hold a key.

    pub(super) fn believes(&self, holder: &Holder) -> Option<u64> {
        match holder.who {
            Who::Poller { until, .. } => (self.now < until).then_some(until),
            Who::Request(index) => {
                let request = &self.requests[index];
                let clock = self.clients[request.client].clock;
                match request.cell()?.peek(clock.at(self.now)) {
                    CellState::Until(until) => Some(clock.when(until)),
                    CellState::Lost(_) | CellState::Released => None,
                }
            }
        }
    }

    pub(super) fn is_believed(&self, key: usize) -> bool {
        self.keys[key].holders.iter().any(|holder| self.believes(holder).is_some())
    }

    fn lease_start(&self, key: usize, text: &str) -> u64 {
        match &self.keys[key].value {
            Some((found, since, _)) if **found == *text => *since,
            _ => 0,
        }
    }

    /// A request has got the lock.
    pub(super) fn entered(&mut self, c: usize, index: usize, cell: &Arc<HoldCell>) {
        let key = self.requests[index].key;
        self.check_wait(key);
        let text = crate::backend::token_text(&self.clients[c].name, cell.token);
        let lease_start = self.lease_start(key, &text);
        let holder = Holder { who: Who::Request(index), lease_start };
        self.check_order_here(c, index);
        self.check_alone(key, &holder);
        if self.believes(&holder).is_some() {
            self.check_fence(key, cell.fence, lease_start);
        }
        self.keys[key].holders.push(holder);
        self.vacancy_ends(key);
    }

    pub(super) fn foreign_entered(&mut self, key: usize, index: usize, until: u64) {
        let text = self.keys[key].value.clone().map(|(text, ..)| text).unwrap_or_default();
        let lease_start = self.lease_start(key, &text);
        let holder = Holder { who: Who::Poller { index, until }, lease_start };
        self.check_alone(key, &holder);
        self.keys[key].holders.push(holder);
        self.vacancy_ends(key);
    }

    fn check_alone(&mut self, key: usize, new: &Holder) {
        let now = self.now;
        if self.believes(new).is_none() {
            return;
        }
        if now < self.keys[key].min_until && self.cfg.in_order() {
            self.fail(
                "min_hold",
                format!(
                    "{} was taken {} ms early",
                    self.keys[key].name,
                    (self.keys[key].min_until - now) / MILLI
                ),
            );
        }
        for other in self.keys[key].holders.clone() {
            let Some(until) = self.believes(&other) else { continue };
            if self.is_excused(key, &other, new, until) {
                continue;
            }
            let what = format!(
                "{}: {:?} and {:?} (the former for {:.3} ms more)",
                self.keys[key].name,
                other.who,
                new.who,
                (until - now) as f64 / 1e6
            );
            self.fail("one holder", what);
        }
    }

    /// Two holders after a fault that the promises do not cover.
    fn is_excused(&self, key: usize, old: &Holder, new: &Holder, until: u64) -> bool {
        let fault = self.fault_at.max(self.keys[key].fault_at);
        if fault == 0 || old.lease_start.min(new.lease_start) >= fault {
            return false;
        }
        // Even then a step that was noticed must have been allowed for, within what cannot be measured.
        let Who::Request(index) = old.who else { return true };
        let noticed = self.clients[self.requests[index].client].step_seen;
        !noticed || self.cfg.profile != Profile::Forward || until < self.now + 600 * MILLI
    }

    fn check_fence(&mut self, key: usize, fence: Option<u64>, lease_start: u64) {
        let Some(fence) = fence else { return };
        let fault = self.fault_at.max(self.keys[key].fault_at);
        let watch = &mut self.keys[key];
        let last = watch.last_fence;
        watch.last_fence = last.max(fence);
        if !watch.fences.insert(fence) {
            self.fail("fencing", format!("token {fence} was given twice"));
        } else if fence <= last && lease_start >= fault {
            self.fail("fencing", format!("token {fence} came after {last}"));
        }
    }

    fn check_order_here(&mut self, c: usize, index: usize) {
        let mine = &self.requests[index];
        if !mine.is_patient() {
            return;
        }
        let overtaken = self.requests.iter().position(|other| {
            other.client == c
                && other.life == mine.life
                && other.key == mine.key
                && other.is_waiting()
                && other.is_patient()
                && other.ticket < mine.ticket
        });
        if let Some(other) = overtaken {
            self.fail("first in, first out", format!("request {index} overtook {other}"));
        }
    }

    pub(super) fn left(&mut self, index: usize) {
        let key = self.requests[index].key;
        self.keys[key].holders.retain(|holder| holder.who != Who::Request(index));
        self.vacancy_may_begin(key);
    }

    pub(super) fn holders_of_process_are_gone(&mut self, c: usize) {
        for key in 0..self.keys.len() {
            let requests = &self.requests;
            self.keys[key]
                .holders
                .retain(|holder| !matches!(holder.who, Who::Request(index) if requests[index].client == c));
            self.vacancy_may_begin(key);
        }
    }

    // How requests may end.

    pub(super) fn gave_up_busy(&mut self, c: usize, index: usize) {
        let (started, waits) = (self.requests[index].started, self.requests[index].waits);
        let waited = self.now - started;
        if let Waits::For(d) = waits {
            let rate = Duration::from_nanos(waited).mul_f64(1.011) + Duration::from_millis(5);
            if rate < d {
                self.fail(
                    "patience",
                    format!("request {index} of process {c} was told too early that it is busy"),
                );
            }
        }
        if waits == Waits::Forever {
            self.fail("patience", format!("request {index} of process {c} would wait for ever"));
        }
    }

    pub(super) fn gave_up_unavailable(&mut self, c: usize, index: usize) {
        // Who does not wait for a round trip cannot tell.
        let patient = self.requests[index].waits.longer_than(self.reaction());
        if self.cfg.is_whole() && !self.cfg.is_short() && patient {
            self.fail("availability", format!("request {index} of process {c}: the server was there"));
        }
    }

    pub(super) fn check_loss(&mut self, c: usize, index: usize, reason: LostReason) {
        let request = &self.requests[index];
        let key = &self.keys[request.key];
        let promised = self.fault_at == 0 && key.fault_at == 0;
        if promised && reason == LostReason::Taken {
            self.fail("false loss", format!("request {index} of process {c}: nobody took it"));
        } else if promised
            && self.cfg.is_whole()
            && !self.cfg.is_short()
            && reason == LostReason::Expired
            && request.renewal == Renewal::Keep
        {
            self.fail("false loss", format!("request {index} of process {c}: it could have been renewed"));
        }
    }

    /// What a release or an extension learned.
    pub(super) fn judged(&mut self, index: usize, verdict: &Verdict) {
        let key = self.requests[index].key;
        let promised = self.fault_at == 0 && self.keys[key].fault_at == 0;
        if promised && self.cfg.in_order() && verdict.loss() == Some(LostReason::Taken) {
            self.fail("false loss", format!("request {index}: nobody took it, says the verdict"));
        }
    }
}
