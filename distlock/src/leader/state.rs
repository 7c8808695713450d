//! What a candidate's clones share: the term under way.

use std::sync::Arc;

use tokio::sync::watch;

use super::Lead;
use crate::contained::contained;

/// The term of a candidate, if there is one.
#[derive(Debug)]
pub(super) struct State(watch::Sender<Option<Lead>>);

impl Default for State {
    fn default() -> Self {
        State(watch::Sender::new(None))
    }
}

impl State {
    /// The term under way, if its lease is held at this moment.
    pub(super) fn lead(&self) -> Option<Lead> {
        self.0.borrow().as_ref().filter(|lead| lead.is_leader()).cloned()
    }

    /// Notified when a term begins or ends.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Lead>> {
        self.0.subscribe()
    }
}

/// A term that a body runs in. When it is dropped, however the body has ended, the candidate's clones know.
pub(super) struct Reign {
    state: Arc<State>,
    lead: Lead,
}

impl Reign {
    pub(super) fn begin(state: &Arc<State>, lead: Lead) -> Self {
        let reign = Reign { state: state.clone(), lead: lead.clone() };
        // Wakers are the program's: a panic of one must not end the term without its end being told.
        drop(contained(|| state.0.send_replace(Some(lead))));
        reign
    }
}

impl Drop for Reign {
    fn drop(&mut self) {
        // Another task may run the same candidate, and lead by now.
        let is_ours = |now: &Option<Lead>| now.as_ref().is_some_and(|lead| lead.term() == self.lead.term());
        let end = |now: &mut Option<Lead>| {
            let ends = is_ours(now);
            if ends {
                *now = None;
            }
            ends
        };
        drop(contained(|| self.state.0.send_if_modified(end)));
    }
}
