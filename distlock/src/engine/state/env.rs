//! The state that all keys of a machine share.

use std::sync::Arc;
use std::time::Duration;

use super::hints::Hints;
use super::link::LinkStatus;
use super::releases::UnusualReleases;
use crate::engine::{Outcome, Want};
use crate::lease_cell::Ticket;
use crate::protocol::session::Session;
use crate::protocol::{Time, Token, Tuning, lease_end};

/// Above every number.
const BEHIND: u64 = 1 << 63;

/// The state that all keys of a machine share.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) client: Arc<str>,
    pub(crate) tuning: Tuning,
    pub(crate) link: LinkStatus,
    /// Set once nothing more is acquired: the outcome of every request.
    pub(crate) refusal: Option<Outcome>,
    pub(crate) hints: Hints,
    /// Keys whose lingering leases other processes have asked for.
    pub(crate) wanted: Hints,
    pub(crate) releases: UnusualReleases,
    #[cfg(test)]
    pub(crate) record: Option<crate::engine::record::Record>,
    rng: fastrand::Rng,
    /// Source of the numbers for tokens and tickets: `next`, `next + stride`, … belong to this machine.
    pub(crate) next: u64,
    stride: u64,
}

impl Env {
    /// For the machine `index` of `count`. `seed` makes the jitter differ between processes.
    pub(crate) fn new(client: Arc<str>, tuning: Tuning, index: u64, count: u64, seed: u64) -> Self {
        Env {
            #[cfg(test)]
            record: crate::engine::record::of(&client),
            client,
            tuning,
            link: LinkStatus::default(),
            refusal: None,
            hints: Hints::default(),
            wanted: Hints::default(),
            releases: UnusualReleases::default(),
            rng: fastrand::Rng::with_seed(seed.wrapping_add(index)),
            next: count + index,
            stride: count,
        }
    }

    pub(crate) fn next_token(&mut self) -> Token {
        Token(self.number())
    }

    /// The session that all leases depend on, if they end with a session.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.tuning.leases.session()
    }

    /// Until when a lease of `ttl` that was requested at `sent` may be relied on, provided that its session
    /// lives. If the session of that time is over: not at all.
    pub(crate) fn lease_end(&self, sent: Time, ttl: Duration) -> Time {
        match self.session() {
            Some(session) if session.is_earlier(sent) => sent,
            _ => lease_end(sent, ttl),
        }
    }

    /// Waiters are in the order of their tickets: one that replaces a holder stands in front of all others.
    pub(crate) fn next_ticket(&mut self, want: &Want) -> Ticket {
        let others = if want.replaces.is_some() { 0 } else { BEHIND };
        Ticket(self.number() | others)
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next = Token::number_after(self.next, self.stride);
        number
    }

    /// A random duration up to `spread`.
    pub(crate) fn jitter(&mut self, spread: Duration) -> Duration {
        spread.mul_f64(self.rng.f64())
    }
}
