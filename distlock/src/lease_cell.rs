//! The state that a holder and the engine share: one word with the deadline of the hold.
//!
//! If the engine or the holder's own check finds the deadline passed, it changes the word to `lost`. A word
//! that says `lost` never changes again. So a loss is final whichever of the two sees it first, and a check
//! needs no mutex and no I/O.

#[cfg(all(test, distlock_loom))]
mod loom_tests;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::collection::KeyCollection;
use crate::error::LostReason;
use crate::listeners::{Listeners, Listening};
use crate::protocol::session::Session;
use crate::protocol::{LockKind, Time, Token};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Identifies one acquisition from the request to the end of the hold. Increasing within a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

const RELEASED: u64 = 1;
const EXPIRED: u64 = 2;
const TAKEN: u64 = 3;
const MAX_HOLD: u64 = 4;
const SHUTDOWN: u64 = 5;
/// Words from this value on are deadlines.
const FIRST_DEADLINE: u64 = 16;

/// Granted, and the requester has not noticed.
const UNCLAIMED: u8 = 0;
const CLAIMED: u8 = 1;
/// Lost before the requester noticed.
const GIVEN_UP: u8 = 2;

/// Whether the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellState {
    Until(Time),
    Lost(LostReason),
    Released,
}

/// The remaining work for a lost hold after its body has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remains {
    /// `min_hold`: the key stays taken until then, although the hold was lost.
    pub(crate) keep_until: Option<Time>,
    /// The lease was released when it was lost. Nothing remains to do.
    pub(crate) given_back: bool,
    /// The longest ttl that any command for the lease asked for.
    pub(crate) longest: Duration,
}

/// The constant data of a hold.
#[derive(Debug)]
pub(crate) struct HoldInfo {
    pub(crate) key: Arc<str>,
    pub(crate) label: Cow<'static, str>,
    pub(crate) ticket: Ticket,
    pub(crate) token: Token,
    pub(crate) kind: LockKind,
    pub(crate) how: How,
    pub(crate) fence: Option<u64>,
    /// When the hold began.
    pub(crate) held_since: Time,
    /// Set while this is one of several keys that a request collects.
    pub(crate) collection: Option<Arc<KeyCollection>>,
    /// Set if leases end with a session: the hold ends with it, too.
    pub(crate) session: Option<Arc<Session>>,
}

#[derive(Debug)]
pub(crate) struct LeaseCell {
    hold: HoldInfo,
    /// `max_hold`: the hold never lasts beyond this; [`NO_CAP`]: there is no such limit.
    cap: AtomicU64,
    word: AtomicU64,
    /// The section that held it was dropped or has panicked.
    abandoned: AtomicBool,
    claim: AtomicU8,
    ended: Listeners,
    /// Written once, by the engine, when it finds the hold lost.
    remains: OnceLock<Remains>,
    pub(crate) reported: Reported,
}

/// The value for "no limit": no clock reaches it.
const NO_CAP: u64 = u64::MAX;

impl Deref for LeaseCell {
    type Target = HoldInfo;

    fn deref(&self) -> &HoldInfo {
        &self.hold
    }
}

/// The events of a hold that observers have received. Each event is reported once, by whichever thread is first.
#[derive(Debug)]
pub(crate) struct Reported(AtomicU8);

const NOTHING_REPORTED: u8 = 0;
const ACQUIRED_REPORTED: u8 = 1;
const LOST_REPORTED: u8 = 2;
const RELEASED_REPORTED: u8 = 3;

/// The events to report when a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftToReport {
    /// The acquisition was never reported, or the end was.
    Nothing,
    /// The release, and the loss if there was one.
    AnyLossAndRelease,
    /// The release: the loss was reported.
    Release,
}

impl Reported {
    pub(crate) fn new() -> Self {
        Reported(AtomicU8::new(NOTHING_REPORTED))
    }

    /// True if the acquisition is to be reported now.
    pub(crate) fn acquired(&self) -> bool {
        self.step(NOTHING_REPORTED, ACQUIRED_REPORTED)
    }

    /// True if the loss is to be reported now.
    pub(crate) fn lost(&self) -> bool {
        self.step(ACQUIRED_REPORTED, LOST_REPORTED)
    }

    /// The acquisition was reported, and neither a loss nor the release.
    pub(crate) fn is_in_hand(&self) -> bool {
        self.0.load(Ordering::Acquire) == ACQUIRED_REPORTED
    }

    /// No handle to it exists.
    pub(crate) fn released(&self) -> LeftToReport {
        match self.0.swap(RELEASED_REPORTED, Ordering::AcqRel) {
            ACQUIRED_REPORTED => LeftToReport::AnyLossAndRelease,
            LOST_REPORTED => LeftToReport::Release,
            _ => LeftToReport::Nothing,
        }
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// How the holder acquired the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The store granted it to the first command of the request.
    Free,
    /// The store first replied that the lock was busy, and granted it to a later command of the waiter.
    Asked,
    /// The store granted it to this process, which was next in its queue.
    Granted,
    /// Another holder in this process handed its lease on, or left it lingering.
    HandedOn,
    /// Readers of this process have it, and share their lease.
    Joined,
    /// An outer section of the same task holds it.
    Nested,
}

impl LeaseCell {
    /// A hold that lasts until `until`, but not beyond `cap` (`max_hold`).
    pub(crate) fn new(hold: HoldInfo, until: Time, cap: Option<Time>) -> Self {
        LeaseCell {
            hold,
            cap: AtomicU64::new(cap.map_or(NO_CAP, |cap| cap.0)),
            word: AtomicU64::new(word_of(earlier(until, cap))),
            claim: AtomicU8::new(UNCLAIMED),
            abandoned: AtomicBool::new(false),
            ended: Listeners::default(),
            remains: OnceLock::new(),
            reported: Reported::new(),
        }
    }

    fn cap(&self) -> Option<Time> {
        Some(self.cap.load(Ordering::Acquire)).filter(|cap| *cap != NO_CAP).map(Time)
    }

    /// `until`, or the end of `max_hold` if that is earlier.
    pub(crate) fn capped(&self, until: Time) -> Time {
        earlier(until, self.cap())
    }

    /// True if `max_hold` ends after `until`.
    pub(crate) fn may_last_beyond(&self, until: Time) -> bool {
        self.cap().is_none_or(|cap| until < cap)
    }

    /// From now on the hold does not last beyond `cap`.
    pub(crate) fn limit(&self, now: Time, cap: Time) {
        self.cap.store(cap.0, Ordering::Release);
        self.shorten(now, cap);
    }

    /// The requester has noticed the grant. No effect if the engine has given the hold up before, or the hold has ended
    /// by `now`; then the state says so, too.
    pub(crate) fn claim(&self, now: Time) {
        if !matches!(self.state(now), CellState::Until(_)) {
            return;
        }
        let _ = self.claim.compare_exchange(UNCLAIMED, CLAIMED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The requester has noticed the grant, or still polls the request for several keys that it belongs to.
    pub(crate) fn is_claimed(&self) -> bool {
        let attended = self.collection.as_ref().is_none_or(|collection| collection.is_attended());
        attended && self.claim.load(Ordering::Acquire) == CLAIMED
    }

    /// After a loss: true if the requester has not noticed the grant and never will.
    pub(crate) fn give_up(&self) -> bool {
        self.claim.compare_exchange(UNCLAIMED, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// When the session that it depends on ends, as far as is known. `None`: it depends on none.
    pub(crate) fn session_end(&self) -> Option<Time> {
        self.session.as_ref().map(|session| session.deadline())
    }

    /// The state at `now`; a deadline that has passed becomes a loss here.
    pub(crate) fn state(&self, now: Time) -> CellState {
        match self.own_state(now) {
            CellState::Until(deadline) => CellState::Until(earlier(deadline, self.session_end())),
            ended => ended,
        }
    }

    /// The same, but the deadline returned is this hold's own, without the session's.
    fn own_state(&self, now: Time) -> CellState {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let due = self.due(word, now);
            if due == word {
                return state_of(word);
            }
            match self.replace(word, due) {
                Ok(()) => return state_of(due),
                Err(found) => word = found,
            }
        }
    }

    /// What the word becomes at `now`. The reason of a loss is the deadline that has passed: a process that was paused
    /// may find out only after the end of `max_hold` that its lease had ended before.
    fn due(&self, word: u64, now: Time) -> u64 {
        let CellState::Until(deadline) = state_of(word) else { return word };
        let end = earlier(deadline, self.session_end());
        if now < end {
            word
        } else if self.may_last_beyond(end) {
            EXPIRED
        } else {
            MAX_HOLD
        }
    }

    /// The state at `now`, for an observer: changes nothing.
    #[cfg(test)]
    pub(crate) fn peek(&self, now: Time) -> CellState {
        state_of(self.due(self.word.load(Ordering::Acquire), now))
    }

    /// Moves the deadline to `until` unless it is already later. False if the lock is no longer held.
    pub(crate) fn extend(&self, now: Time, until: Time) -> bool {
        let wanted = self.capped(until);
        matches!(self.change(now, |deadline| word_of(deadline.max(wanted))), CellState::Until(_))
    }

    /// Moves the deadline to `until` unless it is already earlier.
    pub(crate) fn shorten(&self, now: Time, until: Time) {
        self.change(now, |deadline| word_of(deadline.min(until)));
    }

    /// Ends the hold as lost. Returns the reason that counts: the first one.
    pub(crate) fn lose(&self, now: Time, reason: LostReason) -> LostReason {
        match self.change(now, |_| word_of_reason(reason)) {
            CellState::Lost(found) => found,
            CellState::Until(_) | CellState::Released => reason,
        }
    }

    /// Ends the hold as released. `Err`: it was lost before, with the reason.
    pub(crate) fn release(&self, now: Time) -> Result<(), LostReason> {
        match self.change(now, |_| RELEASED) {
            CellState::Lost(reason) => Err(reason),
            CellState::Until(_) | CellState::Released => Ok(()),
        }
    }

    /// The section that holds it was dropped or has panicked. Must be called before the release.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Only valid once the hold has ended.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// The hold was lost: stores the remaining work for its lease.
    pub(crate) fn leave_behind(&self, remains: Remains) {
        self.remains.get_or_init(|| remains);
    }

    pub(crate) fn remains(&self) -> Option<Remains> {
        self.remains.get().copied()
    }

    /// Becomes ready when the hold has ended. Create it, then check the state, then wait.
    pub(crate) fn listen(&self) -> Listening {
        self.ended.listen()
    }

    /// Wakes all listeners. Must be called after the word says that the hold has ended.
    pub(crate) fn notify(&self) {
        self.ended.notify();
    }

    /// Replaces the word while the lock is held. Returns the state after that, or the end that came before.
    fn change(&self, now: Time, next: impl Fn(Time) -> u64) -> CellState {
        loop {
            let state = self.own_state(now);
            let CellState::Until(deadline) = state else { return state };
            let (old, new) = (word_of(deadline), next(deadline));
            if old == new || self.replace(old, new).is_ok() {
                return state_of(new);
            }
        }
    }

    fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
        self.word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
}

/// The deadline, or the limit if there is one and it is earlier.
fn earlier(deadline: Time, limit: Option<Time>) -> Time {
    limit.map_or(deadline, |limit| deadline.min(limit))
}

fn word_of(deadline: Time) -> u64 {
    deadline.0.max(FIRST_DEADLINE)
}

fn word_of_reason(reason: LostReason) -> u64 {
    match reason {
        LostReason::Expired => EXPIRED,
        LostReason::Taken => TAKEN,
        LostReason::MaxHold => MAX_HOLD,
        LostReason::Shutdown => SHUTDOWN,
        LostReason::Released => RELEASED,
    }
}

fn state_of(word: u64) -> CellState {
    match word {
        RELEASED => CellState::Released,
        TAKEN => CellState::Lost(LostReason::Taken),
        MAX_HOLD => CellState::Lost(LostReason::MaxHold),
        SHUTDOWN => CellState::Lost(LostReason::Shutdown),
        deadline if deadline >= FIRST_DEADLINE => CellState::Until(Time(deadline)),
        _ => CellState::Lost(LostReason::Expired),
    }
}
