//! The state of each token of this process that may be on the servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Token, op};
use super::missing::Missing;
use super::servers::Servers;
use crate::protocol::Time;
use crate::protocol::mutated;

/// With this many entries, tokens that were never released are removed as soon as nothing of them can be left on a
/// server.
const FIRST_SWEEP: usize = 1024;

/// One token. Removed when the token is released.
#[derive(Debug)]
pub(super) struct TokenRecord {
    pub(super) key: Arc<str>,
    pub(super) ttl: Duration,
    /// The servers that may have data of the token.
    pub(super) touched: Servers,
    /// The servers whose last reply said that this token has the lock.
    pub(super) ours: Servers,
    /// A majority has said that it holds the lock.
    pub(super) held: bool,
    /// It may be in queues.
    pub(super) waits: bool,
    /// For each server, the latest round that requested the lock there. That round handles the rest of earlier ones.
    pub(super) asked: Vec<u64>,
    /// The number of undecided rounds that request the lock.
    pub(super) open: u32,
    /// All unfinished rounds for it, of all kinds.
    pub(super) rounds: Vec<u64>,
    /// It was notified that the lock is free, and has not asked since then.
    pub(super) woken: bool,
    /// Servers that may have it in their queue.
    pub(super) queued: Servers,
    /// The queue server, while the token has no majority and keeps the lock there in order to ask the other servers
    /// again.
    pub(super) kept: Servers,
    /// How often it has asked again for that reason.
    pub(super) again: u32,
    /// How often it has kept the queue server's lock blocked on behalf of the holder of a majority.
    pub(super) aside: u32,
    /// The end of the time in which any server may still have a part of it.
    pub(super) until: Time,
    /// Every fencing token that this lease was given lies below this.
    pub(super) fences_given: u64,
    /// Its last block of fencing tokens.
    pub(super) fence_block: Option<(u64, u32)>,
    /// The end of the lease that a majority has granted.
    pub(super) leased_until: Option<Time>,
    /// The servers that lack the lock although the token holds it.
    pub(super) missing: Missing,
}

impl TokenRecord {
    /// A majority has said that it holds the lock.
    pub(super) fn is_held(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.held = true;
        self.waits = false;
        self.kept = Servers::default();
        (self.again, self.aside) = (0, 0);
    }
}

#[derive(Debug)]
pub(super) struct Tokens {
    entries: HashMap<Token, TokenRecord>,
    sweep_at: usize,
    servers: usize,
}

impl Tokens {
    pub(super) fn new(servers: usize) -> Tokens {
        Tokens { entries: HashMap::new(), sweep_at: FIRST_SWEEP, servers }
    }

    /// A round that requests the lock starts.
    pub(super) fn asks(
        &mut self,
        now: Time,
        key: &Arc<str>,
        token: Token,
        round: u64,
        ttl: Duration,
        lives: Duration,
    ) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| entry.until > now || entry.open > 0);
            self.sweep_at = FIRST_SWEEP.max(2 * self.entries.len());
        }
        let servers = self.servers;
        let entry = self.entries.entry(token).or_insert_with(|| TokenRecord {
            key: key.clone(),
            ttl,
            touched: Servers::default(),
            ours: Servers::default(),
            held: false,
            waits: false,
            asked: vec![0; servers],
            open: 0,
            rounds: Vec::new(),
            woken: false,
            queued: Servers::default(),
            kept: Servers::default(),
            again: 0,
            aside: 0,
            until: now,
            fences_given: 0,
            fence_block: None,
            leased_until: None,
            missing: Missing::default(),
        });
        entry.open += 1;
        entry.rounds.push(round);
        entry.woken = false;
        entry.until = entry.until.max(now.after(lives));
    }

    pub(super) fn get(&mut self, token: Token) -> Option<&mut TokenRecord> {
        self.entries.get_mut(&token)
    }

    /// The tokens that hold a lock.
    pub(super) fn held(&mut self) -> impl Iterator<Item = &mut TokenRecord> {
        self.entries.values_mut().filter(|entry| entry.held)
    }

    /// The tokens that hold a lock which this server lacks, in order.
    pub(super) fn missing_at(&self, node: usize) -> Vec<(Arc<str>, Token)> {
        let missing = self.entries.iter().filter(|(_, entry)| entry.held && entry.missing.has(node));
        let mut missing: Vec<_> = missing.map(|(token, entry)| (entry.key.clone(), *token)).collect();
        missing.sort_unstable_by_key(|(_, token)| *token);
        missing
    }

    /// The token is released everywhere.
    pub(super) fn remove(&mut self, token: Token) -> Option<TokenRecord> {
        self.entries.remove(&token)
    }

    /// This round requests the lock on this server.
    pub(super) fn asks_server(&mut self, token: Token, node: usize, round: u64, op: &op::Ask) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.touched.add(node);
            if op.queues() {
                entry.queued.add(node);
            }
            if let Some(asked) = entry.asked.get_mut(node) {
                *asked = round;
            }
        }
    }

    /// Whether a later round has requested the lock on this server.
    pub(super) fn asked_later(&self, token: Token, node: usize, round: u64) -> bool {
        let asked = self.entries.get(&token).and_then(|entry| entry.asked.get(node));
        asked.is_some_and(|asked| *asked > round)
    }

    /// Whether an undecided round requests the lock. It may still use the acquisitions of another round.
    pub(super) fn is_asking(&self, token: Token) -> bool {
        self.entries.get(&token).is_some_and(|entry| entry.open > 0)
    }

    /// This server has replied that the token has the lock.
    pub(super) fn is_ours(&mut self, token: Token, node: usize) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.ours.add(node);
        }
    }

    /// This server has replied that the token does not have the lock, or it is asked to release it.
    pub(super) fn is_not_ours(&mut self, token: Token, node: usize) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.ours.remove(node);
        }
    }

    /// Whether this server's lock or queue entry for the token must still be released, as far as this process knows.
    pub(super) fn is_to_give_back(&self, token: Token, node: usize) -> bool {
        self.entries.get(&token).is_none_or(|entry| entry.ours.has(node) && !entry.kept.has(node))
    }

    /// The unfinished rounds for the token.
    pub(super) fn rounds(&self, token: Token) -> Vec<u64> {
        self.entries.get(&token).map(|entry| entry.rounds.clone()).unwrap_or_default()
    }

    /// Whether it may be in this server's queue.
    pub(super) fn is_queued(&self, token: Token, node: usize) -> bool {
        self.entries.get(&token).is_some_and(|entry| entry.queued.has(node))
    }

    /// The tokens that may be in this server's queue and do not hold the lock, in order.
    pub(super) fn queued_at(&self, node: usize) -> Vec<Token> {
        let waits = |entry: &TokenRecord| entry.queued.has(node) && entry.waits && !entry.held;
        let mut queued: Vec<Token> =
            self.entries.iter().filter(|(_, entry)| waits(entry)).map(|(token, _)| *token).collect();
        queued.sort_unstable();
        queued
    }

    pub(super) fn is_held(&self, token: Token) -> bool {
        self.entries.get(&token).is_some_and(|entry| entry.held)
    }

    /// The block of another round for this token must lie at or above this.
    pub(super) fn fences_given(&self, token: Token) -> u64 {
        if mutated!(BlockGivenTwice) {
            return 0;
        }
        self.entries.get(&token).map_or(0, |entry| entry.fences_given)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
