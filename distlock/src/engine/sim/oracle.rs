//! The oracle: conditions that must always hold.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::config::{Level, MILLI, Profile, Use};
use super::linger::Lingering;
use super::workload::Waits;
use super::world::{WATCH, World};
use crate::engine::{Confirmation, Failed, Renewal};
use crate::error::LostReason;
use crate::lease_cell::{CellState, LeaseCell};
use crate::protocol::{Failure, LockKind, ServerTime, Token};

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
    pub(super) kind: LockKind,
    /// When its lease began on the server.
    lease_start: u64,
}

/// A lease on the server.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) text: Arc<str>,
    /// In true time.
    pub(super) since: u64,
    pub(super) until: ServerTime,
}

/// The oracle's knowledge of a key.
#[derive(Debug)]
pub(super) struct KeyWatch {
    pub(super) name: Arc<str>,
    pub(super) used_for: Use,
    pub(super) holders: Vec<Holder>,
    pub(super) last_fence: u64,
    pub(super) fences: HashSet<u64>,
    /// The holders on the server: the value of the key, or its members.
    pub(super) leases: Vec<Lease>,
    /// When each process last granted a lease to readers itself: the client and its life, the token, the time.
    pub(super) groups: Vec<(usize, u32, Token, u64)>,
    /// When each token last asked the server.
    pub(super) asked: HashMap<(usize, Token), u64>,
    /// Since when the lock has been handed on without a gap.
    pub(super) run_since: Option<ServerTime>,
    /// The latest fault that the promises do not cover.
    pub(super) fault_at: u64,
    /// A release with `min_hold` keeps it taken until then.
    pub(super) min_until: u64,
    /// The same for holders of other kinds.
    pub(super) kept: Vec<(LockKind, u64)>,
    /// Since when no process has held the lock, without an excuse.
    pub(super) vacant_since: Option<u64>,
    /// Since when there has been room for another reader, or for another holder of a limited lock.
    pub(super) room_since: Option<u64>,
    /// Since when the server would admit every reader: nothing but readers holds the lock, and the queue is empty.
    pub(super) open_since: Option<u64>,
    /// A push was lost or something else happened that waiters only find out by their heartbeat.
    pub(super) slow: bool,
    /// The same for locks with several holders: waiters may be late until this time.
    pub(super) slow_until: u64,
    /// An abandoned command arrived late.
    pub(super) late_until: u64,
    /// Until then a process may keep the lock without a section, because it does not know that others want it.
    pub(super) untold_until: u64,
    /// The lease that had the latest section.
    pub(super) lingering: Option<Lingering>,
    /// The number of sections that have begun.
    pub(super) sections: u64,
}

impl KeyWatch {
    pub(super) fn new(name: Arc<str>, used_for: Use) -> Self {
        KeyWatch {
            name,
            used_for,
            holders: Vec::new(),
            last_fence: 0,
            fences: HashSet::new(),
            leases: Vec::new(),
            groups: Vec::new(),
            asked: HashMap::new(),
            run_since: None,
            fault_at: 0,
            min_until: 0,
            kept: Vec::new(),
            vacant_since: None,
            room_since: None,
            open_since: None,
            slow: false,
            slow_until: 0,
            late_until: 0,
            untold_until: 0,
            lingering: None,
            sections: 0,
        }
    }
}

impl World {
    pub(super) fn key_index(&self, key: &Arc<str>) -> usize {
        self.keys.iter().position(|watch| watch.name == *key).unwrap_or(0)
    }

    // The holders of a key, as they believe.

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

    pub(super) fn lease_start(&self, key: usize, text: &str) -> u64 {
        let found = self.keys[key].leases.iter().find(|lease| *lease.text == *text);
        found.map_or(0, |lease| lease.since)
    }

    /// A request has got the lock.
    pub(super) fn entered(&mut self, c: usize, index: usize, cell: &Arc<LeaseCell>) {
        let key = self.requests[index].key;
        self.check_wait(key);
        let text = crate::protocol::token_text(&self.clients[c].name, cell.token);
        let lease_start = self.lease_start(key, &text);
        let kind = self.requests[index].kind;
        let holder = Holder { who: Who::Request(index), kind, lease_start };
        self.check_order_here(c, index);
        self.check_reader(c, index, cell);
        self.check_lingering(c, cell, lease_start);
        self.check_alone(key, &holder);
        self.check_remaining(c, index, cell);
        if self.believes(&holder).is_some() {
            self.check_fence(key, cell.fence, lease_start);
        }
        self.keys[key].holders.push(holder);
        self.keys[key].sections += 1;
        self.vacancy_ends(key);
    }

    pub(super) fn foreign_entered(&mut self, key: usize, index: usize, until: u64) {
        let lease_start = self.keys[key].leases.first().map_or(0, |lease| lease.since);
        let holder = Holder { who: Who::Poller { index, until }, kind: LockKind::Exclusive, lease_start };
        self.check_alone(key, &holder);
        self.keys[key].holders.push(holder);
        self.keys[key].sections += 1;
        self.vacancy_ends(key);
    }

    fn check_alone(&mut self, key: usize, new: &Holder) {
        let now = self.now;
        if self.believes(new).is_none() {
            return;
        }
        // A holder may believe in a lease that is over, whatever has happened to the key since.
        if !self.was_standing_still(new) {
            self.check_min_hold(key);
            self.check_kept(key, new);
        }
        let mut beside = self.kept(key, new.kind);
        for other in self.keys[key].holders.clone() {
            let Some(until) = self.believes(&other) else { continue };
            if self.is_excused(key, &other, new, until) {
                continue;
            }
            match (other.kind, new.kind) {
                (LockKind::Shared, LockKind::Shared) => continue,
                (LockKind::Limited { max_holders: a }, LockKind::Limited { max_holders: b }) if a == b => {
                    beside += 1;
                    if beside < usize::try_from(a).unwrap_or(0) {
                        continue;
                    }
                }
                _ => {}
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

    fn check_min_hold(&mut self, key: usize) {
        let KeyWatch { name, min_until, .. } = &self.keys[key];
        if self.now < *min_until {
            let what = format!("{name} was taken {} ms early", (min_until - self.now) / MILLI);
            self.fail("min_hold", what);
        }
    }

    /// Two holders after a fault that the promises do not cover.
    fn is_excused(&self, key: usize, old: &Holder, new: &Holder, until: u64) -> bool {
        let fault = self.fault_at.max(self.keys[key].fault_at);
        if fault == 0 || old.lease_start.min(new.lease_start) >= fault {
            return false;
        }
        if self.cfg.profile == Profile::Stopped {
            return self.was_standing_still(old) || self.was_standing_still(new);
        }
        // Even then the process must have taken a step into account that it has noticed, except for the part that
        // cannot be measured.
        let (stale, until) = if old.lease_start < fault {
            (old, until)
        } else {
            (new, self.believes(new).unwrap_or(self.now))
        };
        let Who::Request(index) = stale.who else { return true };
        let noticed = self.clients[self.requests[index].client].step_seen;
        !noticed || self.cfg.profile != Profile::Forward || until < self.now + 600 * MILLI
    }

    /// Whether the lease may be older than its process knows.
    fn was_standing_still(&self, holder: &Holder) -> bool {
        let Who::Request(index) = holder.who else { return false };
        holder.lease_start < self.clients[self.requests[index].client].stood_still
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

    /// The number of former holders of a limited lock whose place is kept by `min_hold`.
    fn kept(&self, key: usize, kind: LockKind) -> usize {
        let limited = matches!(kind, LockKind::Limited { .. });
        self.keys[key]
            .kept
            .iter()
            .filter(|(kept, until)| limited && *kept == kind && *until > self.now)
            .count()
    }

    fn check_kept(&mut self, key: usize, new: &Holder) {
        let clash = |kind: LockKind| kind != new.kind || kind == LockKind::Exclusive;
        let kept = self.keys[key].kept.iter().find(|(kind, until)| clash(*kind) && *until > self.now);
        if let Some((kind, until)) = kept.copied() {
            let what = format!("{:?} came {} ms early, after {kind}", new.who, (until - self.now) / MILLI);
            self.fail("min_hold", what);
        }
    }

    /// Checks that readers follow readers without a command to the server only for a short time: a writer may be
    /// waiting there.
    fn check_reader(&mut self, c: usize, index: usize, cell: &Arc<LeaseCell>) {
        if self.requests[index].kind != LockKind::Shared {
            return;
        }
        let (now, life, key) = (self.now, self.clients[c].life, self.requests[index].key);
        let groups = &mut self.keys[key].groups;
        let Some(group) = groups.iter().find(|group| (group.0, group.1, group.2) == (c, life, cell.token))
        else {
            groups.push((c, life, cell.token, now));
            return;
        };
        let since = group.3;
        if now > since + 60 * MILLI && self.clients[c].disturbed_at < since {
            let what = format!("request {index} joined after {} ms", (now - since) / MILLI);
            self.fail("readers without end", what);
        }
    }

    /// Checks that a request that needs its own lease gets none that another request of its process had.
    pub(super) fn check_own_lease(&mut self, index: usize, cell: &LeaseCell) {
        let mine = &self.requests[index];
        let token = Some(cell.token);
        let former = self.requests.iter().enumerate().position(|(other, request)| {
            other != index
                && (request.client, request.life) == (mine.client, mine.life)
                && (request.left_with == token || request.cell().map(|cell| cell.token) == token)
        });
        if let (true, Some(former)) = (mine.own_lease, former) {
            self.fail("own lease", format!("request {index} got the lease of request {former}"));
        }
    }

    fn check_order_here(&mut self, c: usize, index: usize) {
        let mine = &self.requests[index];
        if !mine.is_patient() || mine.replaces.is_some() {
            return;
        }
        let overtaken = self.requests.iter().enumerate().position(|(index, other)| {
            other.client == c
                && other.life == mine.life
                && other.key == mine.key
                && other.is_waiting()
                && other.is_patient()
                && other.ticket < mine.ticket
                && !self.is_about_to_be_told(index)
        });
        if let Some(other) = overtaken {
            self.fail("first in, first out", format!("request {index} overtook {other}"));
        }
    }

    pub(super) fn left(&mut self, index: usize) {
        let key = self.requests[index].key;
        self.keys[key].holders.retain(|holder| holder.who != Who::Request(index));
        self.lingering_begins(key, index);
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

    // The ends of requests.

    pub(super) fn gave_up_busy(&mut self, c: usize, index: usize) {
        let waits = self.requests[index].waits;
        if self.requests[index].crowded || self.is_second_to_replace(index) {
            return;
        }
        self.check_turned_away(c, index);
        let local = self.clients[c].clock.at(self.now);
        if self.requests[index].ends_after(local, Duration::from_millis(5)) {
            self.fail(
                "patience",
                format!("request {index} of process {c} was told too early that it is busy"),
            );
        }
        if waits == Waits::Forever {
            self.fail("patience", format!("request {index} of process {c} would wait without end"));
        }
    }

    /// Checks that a reader that does not wait ends as busy only if the server would not admit it, or behind a writer
    /// of its process that waits. If it ends at once, an earlier reply has named the holder.
    fn check_turned_away(&mut self, c: usize, index: usize) {
        let mine = &self.requests[index];
        let told_by_a_reply = !mine.is_patient() && self.now > mine.started;
        let fault = self.fault_at.max(self.keys[mine.key].fault_at).max(self.stepped_at);
        let calm = self.cfg.is_whole() && self.cfg.level == Level::Engine && fault == 0;
        if !calm || mine.kind != LockKind::Shared || !told_by_a_reply {
            return;
        }
        let is_behind = self.requests.iter().any(|other| {
            (other.client, other.key, other.life) == (c, mine.key, mine.life)
                && other.kind == LockKind::Exclusive
                && other.is_waiting()
                && other.is_patient()
                && other.ticket < mine.ticket
        });
        let executed_at = self.clients[c].executed_at;
        if self.keys[mine.key].open_since.is_some_and(|open| open < executed_at) && !is_behind {
            self.fail("readers", format!("request {index} was turned away by other readers"));
        }
    }

    pub(super) fn gave_up_wrong_kind(&mut self, index: usize) {
        let Use::Clashing(_) = self.keys[self.requests[index].key].used_for else {
            self.fail("kinds", format!("request {index} was told of another kind"));
            return;
        };
        let mine = &self.requests[index];
        let limited = |kind| matches!(kind, LockKind::Limited { .. });
        let clash = self.requests.iter().any(|other| {
            other.key == mine.key
                && other.started > 0
                && other.kind != mine.kind
                && (limited(mine.kind) || limited(other.kind))
        });
        if !clash {
            self.fail("kinds", format!("request {index}: nobody asked for another kind"));
        }
    }

    pub(super) fn gave_up_unavailable(&mut self, c: usize, index: usize, why: Failure) {
        self.check_unavailable_after(c, index, why);
        // A request that waits for less than a round trip cannot know. The keys before this one may have taken nearly
        // all of the time: then the server was reachable.
        let patient = self.requests[index].waits.longer_than(self.reaction());
        // A step forward ends a lease if it happens before the answer was noticed.
        let stepped = self.stepped_at >= self.requests[index].started;
        if self.cfg.is_whole() && !self.cfg.is_short() && patient && !stepped {
            self.fail("availability", format!("request {index} of process {c}: the server was there"));
        }
    }

    /// Checks that a waiter ends as unavailable only if the server has been unreachable for long enough, or refuses
    /// permanently.
    fn check_unavailable_after(&mut self, c: usize, index: usize, why: Failure) {
        let (request, client) = (&self.requests[index], &self.clients[c]);
        let calm = client.paused_until <= request.started && client.stood_still == 0;
        let local = client.clock.at(self.now);
        let waited = local.duration_since(request.asked) + Duration::from_millis(5);
        if why != Failure::Refused
            && request.is_patient()
            && calm
            && waited < request.unavailable_after
            && request.ends_after(local, Duration::from_millis(5)) | (request.waits == Waits::Forever)
        {
            let what =
                format!("request {index} of process {c} gave up after {} ms: {why:?}", waited.as_millis());
            self.fail("patience", what);
        }
    }

    pub(super) fn check_loss(&mut self, c: usize, index: usize, reason: LostReason) {
        if reason == LostReason::Expired {
            // The waiters were told when the last lease ends, which may have been another lease at that time.
            self.others_were_not_told(self.requests[index].key);
        }
        let request = &self.requests[index];
        let key = &self.keys[request.key];
        if reason == LostReason::MaxHold
            && request.expired_since.is_some_and(|since| self.now > since + 2 * WATCH)
        {
            self.fail("reason", format!("request {index} had expired before the end of max_hold"));
            return;
        }
        let promised = self.fault_at == 0 && key.fault_at == 0;
        // Replies to commands of one event may be noticed in another order. If the clock was set back between them, the
        // later one may look like a step forward, and the engine ends a lease of the earlier one to be safe.
        let set_back = self.stepped_at > 0 && self.now <= self.stepped_at + self.reaction();
        if promised && reason == LostReason::Taken {
            self.fail("false loss", format!("request {index} of process {c}: nobody took it"));
        } else if promised
            && self.cfg.is_whole()
            && !self.cfg.is_short()
            && !set_back
            && reason == LostReason::Expired
            && request.renewal == Renewal::Keep
            && request.picked_up
            && !request.is_looked_at_late()
        {
            self.fail("false loss", format!("request {index} of process {c}: it could have been renewed"));
        }
    }

    /// Checks the confirmation of a release or of an extension.
    pub(super) fn judged(&mut self, index: usize, confirmation: &Confirmation) {
        let key = self.requests[index].key;
        let promised = self.fault_at == 0 && self.keys[key].fault_at == 0;
        if promised && matches!(confirmation, Err(Failed::Lost(LostReason::Taken))) {
            self.fail("false loss", format!("request {index}: nobody took it, says the verdict"));
        }
    }
}
