//! Whoever has given a lock back lets those ask first who were told of it.
//!
//! Its own next request follows the release on the same connections: it would be at every server before theirs, and
//! one process could keep a lock that is in demand for as long as it likes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Failure, Op, OpError, Token};
use super::coordinator::{Coordinator, Effect, Now};
use crate::clock::Time;

/// Enough for the news of a release, and for a round with all servers.
const STAND_BACK: Duration = Duration::from_millis(10);

/// Keys that we have just given back.
pub(super) type Courtesy = HashMap<Arc<str>, StandingBack>;

/// What we want of a key that others shall have a chance to get first.
#[derive(Debug)]
pub(super) struct StandingBack {
    until: Time,
    /// The round that gives it back, until some server says that somebody was told of it.
    release: Option<u64>,
    requests: Vec<Request>,
}

#[derive(Debug)]
struct Request {
    round: u64,
    op: Op,
}

impl Coordinator {
    /// This round gives back a lock that was held.
    pub(super) fn stand_back(&mut self, now: Now, key: &Arc<str>, round: u64) {
        let until = now.time.after(STAND_BACK);
        let back = self.courtesy.entry(key.clone()).or_insert_with(|| StandingBack {
            until,
            release: None,
            requests: Vec::new(),
        });
        (back.until, back.release) = (until, Some(round));
    }

    /// A server has told somebody of this release.
    pub(super) fn others_are_told(&mut self, key: &Arc<str>, round: u64) {
        if let Some(back) = self.courtesy.get_mut(key)
            && back.release == Some(round)
        {
            back.release = None;
        }
    }

    /// A release is decided: if nobody was told of it, nobody else is there.
    pub(super) fn released(&mut self, now: Now, key: &Arc<str>, round: u64) {
        if self.courtesy.get(key).is_some_and(|back| back.release == Some(round)) {
            self.come_forward(now, key);
        }
    }

    /// Keeps a request for later, if others come first; or gives it back.
    pub(super) fn after_others(&mut self, now: Now, round: u64, key: &Arc<str>, op: Op) -> Option<Op> {
        match self.courtesy.get_mut(key).filter(|back| back.until > now.time) {
            Some(back) => {
                back.requests.push(Request { round, op });
                None
            }
            None => Some(op),
        }
    }

    /// The token is given back before it was asked for.
    pub(super) fn withdraw(&mut self, key: &Arc<str>, token: Token) {
        let Some(back) = self.courtesy.get_mut(key) else { return };
        for request in back.requests.extract_if(.., |request| request.op.token() == token) {
            let error = OpError::new(Failure::NotSent, "given up before it was sent");
            self.out.push(Effect::Done { round: request.round, result: Err(error) });
        }
    }

    fn come_forward(&mut self, now: Now, key: &Arc<str>) {
        let Some(back) = self.courtesy.remove(key) else { return };
        for Request { round, op } in back.requests {
            self.ask(now, round, key, op);
        }
    }

    pub(super) fn courtesy_due(&self) -> Option<Time> {
        self.courtesy.values().map(|back| back.until).min()
    }

    pub(super) fn fire_courtesy(&mut self, now: Now) {
        let due = self.courtesy.iter().filter(|(_, back)| back.until <= now.time);
        let due: Vec<Arc<str>> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            self.come_forward(now, &key);
        }
    }
}
