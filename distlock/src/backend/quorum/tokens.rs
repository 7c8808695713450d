//! What is known about each token of ours that may be somewhere on the servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::{AcquireMode, Op, Token};
use super::missing::Missing;
use super::servers::Servers;
use crate::protocol::Time;
use crate::protocol::mutated;

/// Entries that nobody gave back are looked for when there are this many.
const FIRST_SWEEP: usize = 1024;

/// One token. Gone from the tokens once it was given back.
#[derive(Debug)]
pub(super) struct TokenRecord {
    pub(super) key: Arc<str>,
    pub(super) ttl: Duration,
    /// The servers that may have something of it.
    pub(super) touched: Servers,
    /// The servers that last said that the lock is its.
    pub(super) ours: Servers,
    /// A majority said that it holds the lock.
    pub(super) held: bool,
    /// It may stand in queues.
    pub(super) waits: bool,
    /// The latest round in which each server was asked for the lock. What an earlier one may have left behind
    /// there, that one is told.
    pub(super) asked: Vec<u64>,
    /// Rounds that ask for the lock and are not decided.
    pub(super) open: u32,
    /// Rounds for it that are not over, of all kinds.
    pub(super) rounds: Vec<u64>,
    /// Told that the lock is free, and has not asked since.
    pub(super) woken: bool,
    /// Servers that may have it in their queue.
    pub(super) queued: Servers,
    /// The queue server whose lock it keeps without a majority, to ask the others again.
    pub(super) kept: Servers,
    /// How often it has asked again for that reason.
    pub(super) again: u32,
    /// How often it has kept the queue server's lock from everybody for somebody else.
    pub(super) aside: u32,
    /// Nothing of it lives longer on any server.
    pub(super) until: Time,
    /// Fencing tokens below were given to this lease.
    pub(super) fences_given: u64,
    /// The block that it was given last.
    pub(super) fence_block: Option<(u64, u32)>,
    /// When the lease ends that a majority has granted.
    pub(super) leased_until: Time,
    /// Where it is missing although it is held.
    pub(super) missing: Missing,
}

impl TokenRecord {
    /// A majority says so.
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

    /// A round begins that asks for the lock.
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
            leased_until: Time(0),
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

    /// Those that hold a lock but not at this server, in order.
    pub(super) fn missing_at(&self, node: usize) -> Vec<(Arc<str>, Token)> {
        let missing = self.entries.iter().filter(|(_, entry)| entry.held && entry.missing.has(node));
        let mut missing: Vec<_> = missing.map(|(token, entry)| (entry.key.clone(), *token)).collect();
        missing.sort_unstable_by_key(|(_, token)| *token);
        missing
    }

    /// The token is given back everywhere.
    pub(super) fn remove(&mut self, token: Token) -> Option<TokenRecord> {
        self.entries.remove(&token)
    }

    /// This round asks this server for the lock.
    pub(super) fn asks_server(&mut self, token: Token, node: usize, round: u64, op: &Op) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.touched.add(node);
            if matches!(op, Op::Acquire { mode, .. } if *mode != AcquireMode::Try) {
                entry.queued.add(node);
            }
            if let Some(asked) = entry.asked.get_mut(node) {
                *asked = round;
            }
        }
    }

    /// Whether a round after this one has asked this server for the lock.
    pub(super) fn asked_later(&self, token: Token, node: usize, round: u64) -> bool {
        let asked = self.entries.get(&token).and_then(|entry| entry.asked.get(node));
        asked.is_some_and(|asked| *asked > round)
    }

    /// Whether a round that asks for the lock is not decided. What another one has got may still help it.
    pub(super) fn is_asking(&self, token: Token) -> bool {
        self.entries.get(&token).is_some_and(|entry| entry.open > 0)
    }

    /// What a server said when it was asked for the lock.
    pub(super) fn said(&mut self, token: Token, node: usize, ours: bool) {
        if let Some(entry) = self.entries.get_mut(&token) {
            if ours { entry.ours.add(node) } else { entry.ours.remove(node) }
        }
    }

    /// Whether what this server has given to the token is still to be given back, as far as is known.
    pub(super) fn is_to_give_back(&self, token: Token, node: usize) -> bool {
        self.entries.get(&token).is_none_or(|entry| entry.ours.has(node) && !entry.kept.has(node))
    }

    /// The rounds for it that are not over.
    pub(super) fn rounds(&self, token: Token) -> Vec<u64> {
        self.entries.get(&token).map(|entry| entry.rounds.clone()).unwrap_or_default()
    }

    /// Whether it may stand in this server's queue.
    pub(super) fn is_queued(&self, token: Token, node: usize) -> bool {
        self.entries.get(&token).is_some_and(|entry| entry.queued.has(node))
    }

    /// Those that may stand in this server's queue and do not hold the lock, in order.
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
