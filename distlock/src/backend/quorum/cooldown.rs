//! After a release, the next request of this process for that key waits up to 10 ms, so that the notified waiters ask
//! first.
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
const COOLDOWN: Duration = Duration::from_millis(10);

/// Keys that we have just given back.
pub(super) type Cooldowns = HashMap<Arc<str>, Cooldown>;

/// What we want of a key that others shall have a chance to get first.
#[derive(Debug)]
pub(super) struct Cooldown {
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
    pub(super) fn start_cooldown(&mut self, now: Now, key: &Arc<str>, round: u64) {
        let until = now.time.after(COOLDOWN);
        let cooldown = self.cooldowns.entry(key.clone()).or_insert_with(|| Cooldown {
            until,
            release: None,
            requests: Vec::new(),
        });
        (cooldown.until, cooldown.release) = (until, Some(round));
    }

    /// A server has told somebody of this release.
    pub(super) fn others_are_told(&mut self, key: &Arc<str>, round: u64) {
        if let Some(cooldown) = self.cooldowns.get_mut(key)
            && cooldown.release == Some(round)
        {
            cooldown.release = None;
        }
    }

    /// A release is decided: if nobody was told of it, nobody else is there.
    pub(super) fn released(&mut self, now: Now, key: &Arc<str>, round: u64) {
        if self.cooldowns.get(key).is_some_and(|cooldown| cooldown.release == Some(round)) {
            self.end_cooldown(now, key);
        }
    }

    /// Keeps a request for later, if others come first; or gives it back.
    pub(super) fn after_others(&mut self, now: Now, round: u64, key: &Arc<str>, op: Op) -> Option<Op> {
        match self.cooldowns.get_mut(key).filter(|cooldown| cooldown.until > now.time) {
            Some(cooldown) => {
                cooldown.requests.push(Request { round, op });
                None
            }
            None => Some(op),
        }
    }

    /// The token is given back before it was asked for.
    pub(super) fn withdraw(&mut self, key: &Arc<str>, token: Token) {
        let Some(cooldown) = self.cooldowns.get_mut(key) else { return };
        for request in cooldown.requests.extract_if(.., |request| request.op.token() == token) {
            let error = OpError::new(Failure::NotSent, "given up before it was sent");
            self.out.push(Effect::Done { round: request.round, result: Err(error) });
        }
    }

    fn end_cooldown(&mut self, now: Now, key: &Arc<str>) {
        let Some(cooldown) = self.cooldowns.remove(key) else { return };
        for Request { round, op } in cooldown.requests {
            self.ask(now, round, key, op);
        }
    }

    pub(super) fn cooldowns_due(&self) -> Option<Time> {
        self.cooldowns.values().map(|cooldown| cooldown.until).min()
    }

    pub(super) fn fire_cooldowns(&mut self, now: Now) {
        let due = self.cooldowns.iter().filter(|(_, cooldown)| cooldown.until <= now.time);
        let due: Vec<Arc<str>> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            self.end_cooldown(now, &key);
        }
    }
}
