//! Repair: acquires a held lock on servers that lack it. A held lock should be on every reachable server, or requested
//! there. With a bare majority, its holder would lose it with the next server.
//!
//! If a server has forgotten the lock, or has granted it to another process (which asked at the same time and will
//! release it), it is asked repeatedly while the lease lasts. A late acquisition does not prolong the lease, and counts
//! for a renewal only if the renewal finds it there.

use std::sync::Arc;
use std::time::Duration;

use super::super::{AcquireReply, OpResult, Remaining, Token, op};
use super::coordinator::Coordinator;
use super::effect::{AskJob, FenceJob, MemberCommand, Now};
use super::follow_up::take;
use super::missing::Missing;
use crate::protocol::Time;
use crate::protocol::mutated;

/// The pause before a server is asked again. It doubles each time …
const FIRST_REPAIR_PAUSE: Duration = Duration::from_millis(50);
/// … up to this fraction of the ttl (one sixth) …
const LONGEST_PART: u32 = 6;
/// … and up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// The delay after the expiry of another token's lock, before that server is asked again.
const DELAY_AFTER_EXPIRY: Duration = Duration::from_millis(2);

impl Coordinator {
    /// Acquires a held lock on this server, which lacks it.
    pub(super) fn repair(&mut self, now: Now, node: usize, key: &Arc<str>, token: Token) {
        let Some(entry) = self.tokens.get(token) else { return };
        if !entry.held || mutated!(NothingRepaired) {
            return;
        }
        entry.missing.at.add(node);
        let Some(until) = entry.leased_until else { return };
        let left = until.duration_since(now.time);
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
        self.tell(now, node, key, MemberCommand::Ask(AskJob::Repair(token), take(token, ttl).into()));
        if let Some((first, count)) = fences {
            self.tell(
                now,
                node,
                key,
                MemberCommand::Fence(FenceJob::Ignored, op::Fence { token, first, count }),
            );
        }
    }

    /// The reply of a server to such an acquisition.
    pub(super) fn repaired(&mut self, now: Now, node: usize, token: Token, result: &OpResult<AcquireReply>) {
        let Some(entry) = self.tokens.get(token) else { return };
        entry.missing.asked.remove(node);
        if matches!(result, Ok(reply) if reply.is_acquired()) {
            entry.missing.at.remove(node);
        } else if !mutated!(RepairedOnce) {
            let expires = match result {
                Ok(AcquireReply::Busy { remaining: Remaining::For(left), .. }) => {
                    Some(now.time.after(*left + DELAY_AFTER_EXPIRY))
                }
                _ => None,
            };
            self.repair_again(now, token, expires);
        }
    }

    /// Asks again after a pause, or sooner if the other token's lock expires there sooner.
    pub(super) fn repair_again(&mut self, now: Now, token: Token, expires: Option<Time>) {
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

    /// A reply showed that the lock is on this server.
    pub(super) fn is_not_missing(&mut self, node: usize, token: Token) {
        if let Some(entry) = self.tokens.get(token) {
            entry.missing.at.remove(node);
        }
    }

    /// A server may have forgotten all locks.
    pub(super) fn all_missing(&mut self, node: usize) {
        for entry in self.tokens.held() {
            entry.missing.at.add(node);
        }
    }

    /// A server is connected: acquires the locks that it lacks.
    pub(super) fn refill(&mut self, now: Now, node: usize) {
        let missing: Vec<(Arc<str>, Token)> = self.tokens.missing_at(node);
        for (key, token) in missing {
            self.repair(now, node, &key, token);
        }
    }

    /// Nothing is left to repair for this token.
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
