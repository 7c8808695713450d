//! The requests for locks, and the work of their holders.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::client::What;
use super::config::{MILLI, SECOND};
use super::tickets::NOT_EXECUTED;
use super::world::World;
use crate::engine::{Outcome, ReleaseStarted, Renewal, WaitLimit, Want};
use crate::error::LostReason;
use crate::lease_cell::{CellState, LeaseCell, Ticket};
use crate::protocol::{LockKind, Time};

/// How long a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    Once,
    For(Duration),
    Forever,
}

impl Waits {
    pub(super) fn longer_than(self, nanos: u64) -> bool {
        match self {
            Waits::Once | Waits::Forever => true,
            Waits::For(d) => d > Duration::from_nanos(nanos),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Planned,
    Waiting,
    Holding(Arc<LeaseCell>),
    Ended,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum BodyStep {
    Check,
    Extend,
    End,
    /// The body notices the loss, and stops.
    Stop,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) client: usize,
    pub(super) key: usize,
    /// Set if it is one key of a request for several keys.
    pub(super) group: Option<usize>,
    pub(super) kind: LockKind,
    pub(super) waits: Waits,
    pub(super) renewal: Renewal,
    pub(super) ttl: Duration,
    pub(super) fenced: bool,
    pub(super) max_hold: Option<Duration>,
    pub(super) min_hold: Option<Duration>,
    pub(super) linger: Option<Duration>,
    /// It hands the lock over instead of releasing it.
    pub(super) hands_over: bool,
    /// It takes the lock over from this one.
    pub(super) replaces: Option<Arc<str>>,
    /// It needs its own lease, which no other request of its process had.
    pub(super) own_lease: bool,
    pub(super) max_waiters: Option<u32>,
    pub(super) unavailable_after: Duration,
    pub(super) cancel_after: Option<u64>,
    pub(super) hold: u64,
    pub(super) extend: Option<(u64, Duration)>,
    /// How long after its completion the caller looks at it.
    pub(super) looks_late: Option<u64>,
    /// And then it is dropped.
    pub(super) drops: bool,
    /// Ignores the loss of the lock.
    pub(super) careless: bool,

    pub(super) life: Option<u32>,
    pub(super) ticket: Option<Ticket>,
    pub(super) state: State,
    pub(super) started: u64,
    /// When it was requested, by its process's clock: the process may not have been scheduled since.
    pub(super) asked: Time,
    pub(super) until: Time,
    pub(super) acquired: u64,
    /// Whether more requests waited before it than it accepts.
    pub(super) crowded: bool,
    /// The caller has taken the lock up.
    pub(super) picked_up: bool,
    /// When the caller took it up, in true time.
    pub(super) in_hand_since: u64,
    /// Until when it has extended the lease explicitly.
    pub(super) extended_until: Time,
    /// When it last asked for a longer time than before, and the time.
    pub(super) longest: Option<(Time, Duration)>,
    /// For several keys: when the caller had all of them.
    pub(super) begun: Option<Time>,
    /// The lock was taken away on the server.
    pub(super) broken: Option<u64>,
    pub(super) was_lost: Option<LostReason>,
    /// Since when its lease has been over, although its process may not know.
    pub(super) expired_since: Option<u64>,
    /// Its `min_hold` applies although the lock was lost: it released while the lease continued.
    pub(super) keeps: bool,
    /// The token of the lease that it released.
    pub(super) left_with: Option<crate::protocol::Token>,
}

impl Request {
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(super) fn is_planned(&self) -> bool {
        matches!(self.state, State::Planned)
    }

    pub(super) fn is_patient(&self) -> bool {
        self.waits != Waits::Once
    }

    pub(super) fn cell(&self) -> Option<&Arc<LeaseCell>> {
        if let State::Holding(cell) = &self.state { Some(cell) } else { None }
    }

    /// The request to the engine at the local time `local`.
    pub(super) fn want(&self, local: Time) -> Want {
        let wait_limit = match self.waits {
            Waits::Once => WaitLimit::Once,
            Waits::For(d) => WaitLimit::Until(local.after(d)),
            Waits::Forever => WaitLimit::Forever,
        };
        Want {
            kind: self.kind,
            ttl: Duration::from_millis(u64::try_from(self.ttl.as_millis()).unwrap_or(1)),
            renewal: self.renewal,
            wait_limit,
            unavailable_after: self.unavailable_after,
            fenced: self.fenced,
            max_waiters: self.max_waiters,
            max_hold: self.max_hold,
            min_hold: self.min_hold,
            linger: self.linger,
            replaces: self.replaces.clone(),
            own_lease: self.own_lease,
            collection: None,
            label: Cow::Borrowed("simulated"),
        }
    }

    /// Whether the lock was not renewed at first, because the caller took it up late.
    pub(super) fn is_looked_at_late(&self) -> bool {
        self.looks_late.is_some()
    }

    /// Its process is gone.
    pub(super) fn forget(&mut self) {
        self.state = State::Ended;
    }

    /// There is more than `slack` to go at `local`.
    pub(super) fn ends_after(&self, local: Time, slack: Duration) -> bool {
        matches!(self.waits, Waits::For(_)) && local.after(slack) < self.until
    }

    /// Whether its waiting time is over at the local time `local`, independent of the engine.
    pub(super) fn should_have_ended(&self, local: Time, slack: Duration) -> bool {
        matches!(self.waits, Waits::For(_)) && local > self.until.after(slack)
    }
}

impl World {
    pub(super) fn request_is_due(&mut self, index: usize) {
        let c = self.requests[index].client;
        if let Some(group) = self.requests[index].group {
            return self.group_is_due(c, group);
        }
        if self.clients[c].alive {
            self.requests[index].life = Some(self.clients[c].life);
            self.post(c, 0, What::Start(index));
        } else {
            self.requests[index].state = State::Ended;
        }
    }

    pub(super) fn start_request(&mut self, c: usize, local: Time, index: usize) {
        let want = self.requests[index].want(local);
        let key = self.keys[self.requests[index].key].name.clone();
        note!(self, "process {c}: request {index} for {key}: {want:?}");
        let waiting = self.clients[c].engine.look(&key, |machine| machine.waiting(&key));
        self.requests[index].crowded = want.max_waiters.is_some_and(|most| waiting >= most as usize);
        let (ticket, effects) =
            self.clients[c].engine.on_key(local, &key, |step| step.acquire(want.clone(), index));
        self.requested(local, index, ticket, want.wait_limit);
        if let Some(late) = self.requests[index].cancel_after {
            self.post(c, late, What::Cancel(index));
        }
        self.perform(c, effects, None);
        if self.requests[index].crowded && self.requests[index].is_waiting() {
            self.fail("max_waiters", format!("request {index} waits behind {waiting} others"));
        }
    }

    pub(super) fn requested(&mut self, local: Time, index: usize, ticket: Ticket, wait_limit: WaitLimit) {
        let now = self.now;
        let request = &mut self.requests[index];
        request.ticket = Some(ticket);
        request.state = State::Waiting;
        request.started = now;
        request.asked = local;
        if let WaitLimit::Until(until) = wait_limit {
            request.until = until;
        }
        if request.kind == LockKind::Exclusive {
            let key = request.key;
            self.keys[key].room_since = None;
        }
    }

    pub(super) fn cancel_request(&mut self, c: usize, local: Time, index: usize) {
        if let Some(group) = self.requests[index].group {
            return self.give_up(c, local, group);
        }
        self.end_request(c, local, index);
    }

    /// Ends a request that the caller no longer wants, whatever its state is.
    pub(super) fn end_request(&mut self, c: usize, local: Time, index: usize) {
        let key = self.keys[self.requests[index].key].name.clone();
        match self.requests[index].state.clone() {
            State::Waiting => {
                note!(self, "process {c}: request {index} is cancelled");
                self.requests[index].state = State::Ended;
                if self.is_driven(c) {
                    self.stop_waiting(c, local, index);
                } else if let Some(ticket) = self.requests[index].ticket {
                    let (_, effects) = self.clients[c].engine.on_key(local, &key, |step| step.cancel(ticket));
                    self.perform(c, effects, None);
                }
            }
            State::Holding(_) => self.let_go(c, local, index),
            State::Planned | State::Ended => {}
        }
    }

    /// A request was completed.
    pub(super) fn done(&mut self, c: usize, index: usize, outcome: Outcome) {
        note!(self, "process {c}: request {index} done: {}", name_of(&outcome));
        if let Outcome::Unavailable(_) | Outcome::Closed = &outcome
            && let Some(holder) = self.requests[index].replaces.clone()
        {
            self.take_over_ended(c, &holder, NOT_EXECUTED);
        }
        if !self.requests[index].is_waiting() {
            self.fail("one answer", format!("request {index} was completed after it had ended"));
            return;
        }
        let driven = self.is_driven(c);
        if let Some(group) = self.requests[index].group
            && !driven
        {
            self.gatherings[group].looked();
        }
        match outcome {
            Outcome::Acquired(cell) => {
                self.stats.acquired += 1;
                self.check_not_passed_on(c, index, &cell);
                self.check_taken_over(c, index, &cell);
                self.check_own_lease(index, &cell);
                self.requests[index].state = State::Holding(cell.clone());
                self.requests[index].acquired = self.now;
                self.entered(c, index, &cell);
                if let Some(group) = self.requests[index].group {
                    self.requests[index].picked_up = true;
                    self.requests[index].in_hand_since = self.now;
                    if !driven {
                        cell.claim(self.clients[c].clock.at(self.now));
                    }
                    return self.one_of_several_was_acquired(c, index, group);
                }
                match self.requests[index].looks_late {
                    // It notices when it is polled.
                    _ if driven => {}
                    Some(late) => self.post(c, late, What::PickUp(index)),
                    None => self.pick_up(c, index),
                }
            }
            Outcome::Skipped => {
                self.requests[index].state = State::Planned;
                match self.requests[index].group {
                    Some(group) => self.several_may_go_on(c, group),
                    None => self.fail("one answer", format!("request {index} is for one key")),
                }
            }
            Outcome::Busy { .. } => {
                self.stats.busy += 1;
                self.requests[index].state = State::Ended;
                self.gave_up_busy(c, index);
            }
            Outcome::Unavailable(error) | Outcome::Unconfirmed(error) => {
                self.stats.unavailable += 1;
                self.requests[index].state = State::Ended;
                self.gave_up_unavailable(c, index, error.kind);
            }
            Outcome::WrongKind { .. } => {
                self.requests[index].state = State::Ended;
                self.gave_up_wrong_kind(index);
            }
            Outcome::NotReplaced | Outcome::Deadlock(_) => {
                self.requests[index].state = State::Ended;
            }
            Outcome::Closed => {
                self.requests[index].state = State::Ended;
                if !self.clients[c].closed {
                    self.fail("one answer", "closed without a shutdown");
                }
            }
        }
        if let (Some(group), State::Ended) = (self.requests[index].group, &self.requests[index].state) {
            self.post(c, 0, What::GiveUp(group));
        }
    }

    /// The caller looks at a request that was completed.
    pub(super) fn look(&mut self, c: usize, local: Time, index: usize) {
        if self.requests[index].drops || self.believed_until(index).is_none() {
            self.end_request(c, local, index);
        } else if self.requests[index].cell().is_some() {
            self.pick_up(c, index);
        }
    }

    pub(super) fn pick_up(&mut self, c: usize, index: usize) {
        // The caller finds out at once if the lock was lost meanwhile.
        self.requests[index].picked_up = self.believed_until(index).is_some();
        self.requests[index].in_hand_since = self.now;
        // The driver's future has done so when it noticed the grant.
        if let Some(cell) = self.requests[index].cell()
            && !self.is_driven(c)
        {
            cell.claim(self.clients[c].clock.at(self.now));
        }
        self.begin_body(c, index);
    }

    /// The caller has the lock.
    pub(super) fn begin_body(&mut self, c: usize, index: usize) {
        let Request { hold, extend, .. } = self.requests[index].clone();
        let wake = self.some(self.cfg.notice * 500);
        let half = self.some(hold);
        self.post(c, wake + half, What::Body(index, BodyStep::Check));
        self.post(c, wake + hold, What::Body(index, BodyStep::End));
        if let Some((late, _)) = extend {
            self.post(c, wake + late, What::Body(index, BodyStep::Extend));
        }
    }

    pub(super) fn body(&mut self, c: usize, local: Time, index: usize, step: BodyStep) {
        let State::Holding(cell) = self.requests[index].state.clone() else { return };
        let held = matches!(cell.state(local), CellState::Until(_));
        let stops = !held && !self.requests[index].careless;
        match step {
            BodyStep::Check if stops => self.cancel_request(c, local, index),
            BodyStep::Check => {}
            BodyStep::Extend => {
                let Some((_, ttl)) = self.requests[index].extend else { return };
                let ttl = Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(10));
                let (held, effects) = if self.is_driven(c) {
                    (self.extend_driven(c, local, index, ttl), None)
                } else {
                    let (held, effects) =
                        self.clients[c].engine.on_key(local, &cell.key, |step| step.extend(&cell, ttl));
                    (held, Some(effects))
                };
                // The thread may have been preempted since it looked at the clock: another one may have sent a renewal.
                let stepped = self.clients[c].clock.at(self.now);
                let request = &mut self.requests[index];
                if held {
                    request.extended_until = request.extended_until.max(local.after(ttl));
                    if ttl > request.longest.map_or(request.ttl, |(_, longest)| longest) {
                        request.longest = Some((stepped, ttl));
                    }
                }
                if let Some(effects) = effects {
                    self.perform(c, effects, Some(index));
                }
            }
            BodyStep::End | BodyStep::Stop => self.cancel_request(c, local, index),
        }
    }

    fn let_go(&mut self, c: usize, local: Time, index: usize) {
        let State::Holding(cell) = self.requests[index].state.clone() else { return };
        self.requests[index].state = State::Ended;
        self.requests[index].left_with = Some(cell.token);
        self.requests[index].keeps = self.lease_goes_on(index, &cell);
        self.left(index);
        if self.is_driven(c) {
            return self.release_driven(c, local, index);
        }
        if self.requests[index].hands_over {
            return self.hand_over(c, local, index, &cell);
        }
        let (release, effects) = self.clients[c].engine.on_key(local, &cell.key, |step| step.release(&cell));
        note!(self, "process {c}: request {index} lets go: {release:?}");
        self.perform(c, effects, (release == ReleaseStarted::Sent).then_some(index));
    }

    pub(super) fn lost(&mut self, c: usize, cell: &Arc<LeaseCell>, reason: LostReason) {
        self.stats.lost += 1;
        let life = self.clients[c].life;
        let found = self.requests.iter().position(|request| {
            request.client == c && request.life == Some(life) && request.ticket == Some(cell.ticket)
        });
        if let Some(index) = found {
            self.was_lost(c, index, reason);
        }
    }

    pub(super) fn was_lost(&mut self, c: usize, index: usize, reason: LostReason) {
        note!(self, "process {c}: request {index} lost the lock: {reason:?}");
        if self.requests[index].was_lost.replace(reason).is_some() {
            self.fail("lost is final", format!("request {index} lost the lock twice"));
        }
        self.check_loss(c, index, reason);
        if self.requests[index].careless {
            // It keeps the lease until the lease expires, and hands it on to no process.
            self.nobody_was_told(self.requests[index].key);
        }
        if matches!(self.requests[index].state, State::Holding(_)) && !self.requests[index].careless {
            let wake = self.some(self.cfg.notice * 500);
            self.post(c, wake, What::Body(index, BodyStep::Stop));
        }
    }

    /// The longest time for which a request may continue after its time limit.
    pub(super) fn slack(&self) -> u64 {
        100 * MILLI + self.cfg.notice * 1000 + SECOND / 20
    }
}

fn name_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Acquired(cell) => format!("acquired with {}, fence {:?}", cell.token.0, cell.fence),
        Outcome::Busy { holder, .. } => format!("busy, {holder:?}"),
        Outcome::Unavailable(error) => format!("unavailable, {:?}", error.kind),
        Outcome::Unconfirmed(error) => format!("unconfirmed, {:?}", error.kind),
        Outcome::WrongKind { .. } => "wrong kind".into(),
        Outcome::Closed => "closed".into(),
        Outcome::NotReplaced => "not replaced".into(),
        Outcome::Deadlock(_) => "deadlock".into(),
        Outcome::Skipped => "skipped".into(),
    }
}
