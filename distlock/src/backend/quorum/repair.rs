//! A lock that is held stands on every server that can be reached, or is on its way there: whoever holds it on a
//! bare majority would lose it with the next server.
//!
//! A server that has it for somebody else (a process that asked at the same time and will give it back), or has
//! forgotten it, is asked again and again for as long as the lease lasts. What is taken late does not make the
//! lease longer, and counts for a renewal only if the renewal finds it there.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Op, OpResult, Remaining, Reply, Token};
use super::coordinator::Coordinator;
use super::effect::{Job, Now};
use super::follow_up::take;
use super::missing::Missing;
use crate::protocol::Time;
use crate::protocol::mutated;

/// The pause before a server is asked again; twice as long each time …
const FIRST_REPAIR_PAUSE: Duration = Duration::from_millis(50);
/// … up to this part of the ttl …
const LONGEST_PART: u32 = 6;
/// … and this.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// A lock that expires is asked for so much later.
const EXPIRED: Duration = Duration::from_millis(2);

impl Coordinator {
    /// The lock is held, but not at this server: takes it there, now.
    pub(super) fn repair(&mut self, now: Now, node: usize, key: &Arc<str>, token: Token) {
        let Some(entry) = self.tokens.get(token) else { return };
        if !entry.held || mutated!(NothingRepaired) {
            return;
        }
        entry.missing.at.add(node);
        let left = entry.leased_until.duration_since(now.time);
        let ttl = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        if entry.missing.asked.has(node) || ttl.is_zero() {
            return;
        }
        let fences = entry.fence_block;
        if !self.members.get(node).is_some_and(|member| member.up) {
            return;
        }
        entry.touched.add(node);
        entry.missing.asked.add(node);
        let longest = entry.ttl;
        self.note_ttl(node, longest);
        self.tell(now, node, Job::Repair(token), key, take(token, ttl));
        if let Some((first, count)) = fences {
            self.tell(now, node, Job::Ignored, key, Op::Fence { token, first, count });
        }
    }

    /// A server has answered to that.
    pub(super) fn repaired(&mut self, now: Now, node: usize, token: Token, result: &OpResult) {
        let Some(entry) = self.tokens.get(token) else { return };
        entry.missing.asked.remove(node);
        if matches!(result, Ok(reply) if reply.is_acquired()) {
            entry.missing.at.remove(node);
        } else if !mutated!(RepairedOnce) {
            let expires = match result {
                Ok(Reply::Busy { remaining: Remaining::For(left), .. }) => {
                    Some(now.time.after(*left + EXPIRED))
                }
                _ => None,
            };
            self.repair_again(now, token, expires);
        }
    }

    pub(super) fn repair_later(&mut self, now: Now, token: Token) {
        self.repair_again(now, token, None);
    }

    /// After a pause, or sooner: when the lock of somebody else expires there.
    fn repair_again(&mut self, now: Now, token: Token, expires: Option<Time>) {
        let Some(entry) = self.tokens.get(token) else { return };
        let planned = entry.missing.due.unwrap_or_else(|| {
            let longest = (entry.ttl / LONGEST_PART).min(LONGEST_PAUSE);
            let pause = entry.missing.pause.max(FIRST_REPAIR_PAUSE).min(longest);
            entry.missing.pause = (pause * 2).min(longest);
            now.time.after(pause)
        });
        let due = expires.map_or(planned, |at| at.min(planned));
        if let Some(former) = entry.missing.due.replace(due) {
            self.repairs.remove(&(former, token));
        }
        self.repairs.insert((due, token));
    }

    /// The lock was found to be there.
    pub(super) fn is_not_missing(&mut self, node: usize, token: Token) {
        if let Some(entry) = self.tokens.get(token) {
            entry.missing.at.remove(node);
        }
    }

    /// A server may have forgotten every lock.
    pub(super) fn all_missing(&mut self, node: usize) {
        for entry in self.tokens.held() {
            entry.missing.at.add(node);
        }
    }

    /// A server is there: what is missing there is taken there.
    pub(super) fn refill(&mut self, now: Now, node: usize) {
        let missing: Vec<(Arc<str>, Token)> = self.tokens.missing_at(node);
        for (key, token) in missing {
            self.repair(now, node, &key, token);
        }
    }

    /// Nothing is to be repaired for this token any more.
    pub(super) fn end_repair(&mut self, token: Token, missing: &Missing) {
        if let Some(due) = missing.due {
            self.repairs.remove(&(due, token));
        }
    }

    pub(super) fn repairs_due(&self) -> Option<Time> {
        self.repairs.first().map(|(at, _)| *at)
    }

    pub(super) fn fire_repairs(&mut self, now: Now) {
        while let Some((at, token)) = self.repairs.first().copied()
            && at <= now.time
        {
            self.repairs.pop_first();
            let Some(entry) = self.tokens.get(token) else { continue };
            entry.missing.due = None;
            let (key, missing) = (entry.key.clone(), entry.missing.at);
            for node in (0..self.members.len()).filter(|node| missing.has(*node)) {
                self.repair(now, node, &key, token);
            }
        }
    }
}
