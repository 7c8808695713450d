//! The state that a candidate's clones share: the current term.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Lead;
use crate::contained::contained;
use crate::error::{LockError, LostReason};
use crate::process::{self, Process};
use distlock_store::clock;
use distlock_store::engine::Time;
use distlock_store::kit::sync::Locked;

/// The current term of a candidate, if it has one.
#[derive(Debug)]
pub(super) struct State {
    term: watch::Sender<Option<Lead>>,
    /// The terms whose bodies run, each with the time since which its body was seen to run on after its end. There may
    /// be several, because a clone may lead while an earlier body runs on.
    bodies: Locked<Vec<(Lead, Option<Time>)>>,
    /// The owner token of the latest term, even before that term begins.
    own: Locked<Option<String>>,
    /// In a fork, the mutexes may be locked by a thread that does not exist there.
    made_in: Process,
}

impl Default for State {
    fn default() -> Self {
        let (bodies, own) = (Locked::default(), Locked::default());
        State { term: watch::Sender::new(None), bodies, own, made_in: Process::current() }
    }
}

impl State {
    /// The current term, if its lease is held at this moment.
    pub(super) fn lead(&self) -> Option<Lead> {
        if self.made_in.is_another() {
            return None;
        }
        self.term.borrow().as_ref().filter(|lead| lead.is_leader()).cloned()
    }

    /// Fails with the loss if the body of a term has run on for longer than `tolerance` since it was first seen.
    pub(super) fn check(&self, tolerance: Duration) -> Result<(), LockError> {
        if self.made_in.is_another() {
            return Err(LockError::unavailable("", process::forked()));
        }
        // A leader that resigns has released the lock before its term is removed: its body has returned.
        let resigned =
            |error: &LockError| matches!(error, LockError::Lost { reason: LostReason::Released, .. });
        let (now, mut checked) = (clock::now(), Ok(()));
        for (lead, overdue) in self.bodies.lock().iter_mut() {
            let Some(error) = lead.check().err().filter(|error| !resigned(error)) else { continue };
            let since = *overdue.get_or_insert(now);
            if now.duration_since(since) >= tolerance {
                checked = Err(error);
            }
        }
        checked
    }

    /// The candidate has the lock of the office, with this owner token. Its term begins soon.
    pub(super) fn is_elected(&self, owner: String) {
        *self.own.lock() = Some(owner);
    }

    /// Whether this is the owner token of the candidate's latest term. No other term has the same token.
    pub(super) fn is_own(&self, owner: &str) -> bool {
        self.own.lock().as_deref() == Some(owner)
    }

    /// Notified when a term begins or ends.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Lead>> {
        self.term.subscribe()
    }
}

/// The term in which a body runs. When it is dropped, the candidate's clones notice, however the body has ended.
pub(super) struct Reign {
    state: Arc<State>,
    lead: Lead,
}

impl Reign {
    pub(super) fn begin(state: &Arc<State>, lead: Lead) -> Self {
        let reign = Reign { state: state.clone(), lead: lead.clone() };
        state.bodies.lock().push((lead.clone(), None));
        // A term may end before its body begins. The body then never runs, and another task that runs the same
        // candidate may lead by now: its term stays.
        let store = |now: &mut Option<Lead>| {
            let leads = lead.is_leader();
            if leads {
                *now = Some(lead);
            }
            leads
        };
        // Wakers are code of the program. Even if one panics, the end of the term must be reported.
        drop(contained(|| state.term.send_if_modified(store)));
        reign
    }
}

impl Drop for Reign {
    fn drop(&mut self) {
        if self.state.made_in.is_another() {
            return;
        }
        self.state.bodies.lock().retain(|(lead, _)| lead.term() != self.lead.term());
        // Another task may run the same candidate, and lead by now.
        let is_ours = |now: &Option<Lead>| now.as_ref().is_some_and(|lead| lead.term() == self.lead.term());
        let end = |now: &mut Option<Lead>| {
            let ends = is_ours(now);
            if ends {
                *now = None;
            }
            ends
        };
        drop(contained(|| self.state.term.send_if_modified(end)));
    }
}
