//! An uncontended lock is asked for at as many servers as are a majority, and at the others when it has been held
//! for a moment, or when that majority does not come about: most sections are over before, and cost two commands
//! less for each server on standby. (Five servers share the work of three.)
//!
//! Which ones come first is decided by the key, so that everybody asks the same ones and one of two who ask at the
//! same time gets them all; but not a server that is silent just now.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::{Failure, Op, OpError, Token};
use super::coordinator::{Coordinator, Now};
use super::round::majority;
use super::tokens::Servers;
use crate::clock::Time;

/// How long the others are kept on standby.
const STANDBY_AFTER: Duration = Duration::from_millis(5);
/// A server that has not answered for so long is not asked first.
const SILENT_AFTER: Duration = Duration::from_millis(10);

/// Rounds that have servers on standby, in the order of their times.
pub(super) type Standbys = VecDeque<Standby>;

#[derive(Debug)]
pub(super) struct Standby {
    at: Time,
    round: u64,
    token: Token,
    servers: Servers,
}

impl Coordinator {
    /// The servers that are asked at first: a majority, or all.
    pub(super) fn first_asked(&self, now: Now, key: &str) -> Servers {
        let count = self.members.len();
        let (start, most) = (number_of(key) % count, majority(count));
        let mut first = Servers::default();
        let mut found = 0;
        for node in (start..count).chain(0..start) {
            let fit = self
                .members
                .get(node)
                .is_some_and(|m| m.up && m.counts() && !m.is_silent(now.time, SILENT_AFTER));
            if fit && found < most {
                first.add(node);
                found += 1;
            }
        }
        if found < most { Servers::all() } else { first }
    }

    /// Remembers which servers this round has on standby, if any.
    pub(super) fn keep_in_standbys(&mut self, now: Now, id: u64) {
        if let Some(round) = self.round(id)
            && !round.standby.is_empty()
        {
            let (at, token, servers) = (now.time.after(STANDBY_AFTER), round.token, round.standby);
            self.standbys.push_back(Standby { at, round: id, token, servers });
        }
    }

    /// Nothing is waited for any more that is over.
    pub(super) fn drop_standbys(&mut self) {
        while let Some(first) = self.standbys.front()
            && !self.tokens.knows(first.token)
        {
            self.standbys.pop_front();
        }
    }

    pub(super) fn standbys_due(&self) -> Option<Time> {
        self.standbys.front().map(|standby| standby.at)
    }

    pub(super) fn fire_standbys(&mut self, now: Now) {
        while self.standbys_due().is_some_and(|at| at <= now.time)
            && let Some(standby) = self.standbys.pop_front()
        {
            let Standby { round, token, servers, .. } = standby;
            match self.tokens.get(token).filter(|entry| entry.held) {
                Some(entry) => {
                    let key = entry.key.clone();
                    for node in (0..self.members.len()).filter(|node| servers.has(*node)) {
                        self.repair(now, node, &key, token);
                    }
                }
                None => self.widen(now, round),
            }
        }
    }

    /// Asks the servers on standby, too.
    pub(super) fn widen(&mut self, now: Now, id: u64) {
        let Some(round) = self.round_mut(id) else { return };
        if round.decided || round.standby.is_empty() {
            return;
        }
        let (standby, left) = (std::mem::take(&mut round.standby), round.left);
        for node in (0..self.members.len()).filter(|node| standby.has(*node)) {
            if !left {
                self.put_to(now, id, node);
            } else if let Some(round) = self.round_mut(id) {
                // It would overtake what was sent to give the token back.
                round.answered(node, Err(OpError::new(Failure::NotSent, "not asked")), true);
            }
        }
        self.decide(now, id);
    }
}

/// FNV-1a: the same in every process.
fn number_of(key: &str) -> usize {
    let hash =
        key.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    usize::try_from(hash).unwrap_or(0)
}

/// An operation that takes a free lock and does not queue.
pub(super) fn is_plain(op: &Op) -> bool {
    matches!(op, Op::TryAcquire { .. })
}
