//! Access for the simulation: reading the server, and the commands of other kinds of clients.

use std::sync::Arc;
use std::time::Duration;

use super::key_entry::KeyEntry;
use super::{ModelServer, Value, plus};
use super::{Sender, text};
use crate::backend::{FenceReply, op};
use crate::backend::{LockKind, ServerTime, Token, kind_of, token_text};

/// An entry in the queue that is alive.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) client: Arc<str>,
    pub(crate) token: Token,
    pub(crate) kind: LockKind,
    /// A grant made to it now would be received, or need not be.
    pub(crate) reachable: bool,
}

impl ModelServer {
    /// `PUBLISH` does not report how many clients it has reached, as in a cluster.
    pub(crate) fn stop_counting_listeners(&mut self) {
        self.counts = false;
    }

    /// Only servers of a quorum are asked for it.
    pub(crate) fn fence(&mut self, server_time: ServerTime, from: &Sender<'_>, op: &op::Fence) -> FenceReply {
        let op::Fence { token, first, count } = *op;
        self.sweep(server_time);
        let text = text(from, token);
        let is_holder = self.slot(from.key).live(server_time).is_some_and(|value| value.holder == text);
        self.tidy(from.key);
        if !is_holder {
            return FenceReply::NotHeld;
        }
        let last = self.last_fence;
        self.last_fence = last.max(first + u64::from(count) - 1);
        FenceReply::Fenced { last }
    }

    /// The highest fencing token that it knows of.
    pub(crate) fn counter(&self) -> u64 {
        self.last_fence
    }

    pub(crate) fn raise_counter(&mut self, last: u64) {
        self.last_fence = self.last_fence.max(last);
    }

    /// The value of the lock's key, and when it expires.
    pub(crate) fn value(&self, server_time: ServerTime, key: &Arc<str>) -> Option<(Arc<str>, ServerTime)> {
        let value = self.slots.get(key)?.value.as_ref()?;
        let until = value.until.unwrap_or(ServerTime(u64::MAX));
        (until > server_time).then(|| (value.holder.clone(), until))
    }

    /// The holders: the text in the key, or the members behind its marker; and until when.
    pub(crate) fn leases(
        &self,
        server_time: ServerTime,
        key: &Arc<str>,
    ) -> Vec<(Arc<str>, LockKind, ServerTime)> {
        let Some((text, until)) = self.value(server_time, key) else { return Vec::new() };
        match (kind_of(&text), self.slots.get(key)) {
            (LockKind::Exclusive, _) | (_, None) => vec![(text, LockKind::Exclusive, until)],
            (kind, Some(slot)) => {
                let alive = slot.members.iter().filter(|(_, until)| *until > server_time);
                alive.map(|(member, until)| (member.clone(), kind, *until)).collect()
            }
        }
    }

    pub(crate) fn queue(&self, server_time: ServerTime, key: &Arc<str>) -> Vec<Queued> {
        let Some(slot) = self.slots.get(key) else { return Vec::new() };
        let alive = slot.queue.iter().filter(|entry| entry.until > server_time);
        alive
            .map(|entry| Queued {
                client: entry.client.clone(),
                token: entry.token,
                kind: entry.kind,
                reachable: !entry.listens || !self.counts || self.listeners.contains(&entry.client),
            })
            .collect()
    }

    /// `SET key text NX PX ttl`.
    pub(crate) fn set_plainly(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        text: &str,
        ttl: Duration,
    ) -> bool {
        let slot = self.slot(key);
        if slot.live(server_time).is_some() {
            return false;
        }
        slot.value = Some(Value::new(text.into(), plus(server_time, ttl)));
        true
    }

    /// Compare and delete, without serving the queue.
    pub(crate) fn delete_plainly(&mut self, server_time: ServerTime, key: &Arc<str>, text: &str) -> bool {
        let slot = self.slot(key);
        let ours = slot.live(server_time).is_some_and(|value| &*value.holder == text);
        if ours {
            slot.value = None;
        }
        ours
    }

    /// `DEL key`, by a program that knows nothing of the other keys.
    pub(crate) fn delete_key(&mut self, server_time: ServerTime, key: &Arc<str>) -> bool {
        let slot = self.slot(key);
        let held = slot.live(server_time).is_some();
        slot.value = None;
        held
    }

    /// One of several leases expires.
    pub(crate) fn expire_member(&mut self, server_time: ServerTime, key: &Arc<str>, text: &str) {
        let slot = self.slot(key);
        for (_, until) in slot.members.iter_mut().filter(|(member, _)| **member == *text) {
            *until = server_time;
        }
        if slot.live(server_time).is_some_and(|value| kind_of(&value.holder) != LockKind::Exclusive)
            && !slot.members.iter().any(|(_, until)| *until > server_time)
        {
            slot.value = None;
        }
    }

    /// An entry in the queue expires in its place.
    pub(crate) fn expire_entry(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        client: &str,
        token: Token,
    ) {
        for entry in &mut self.slot(key).queue {
            if entry.token == token && *entry.client == *client {
                entry.until = server_time;
            }
        }
    }

    pub(crate) fn lose_queue(&mut self, key: &Arc<str>) {
        self.slot(key).queue.clear();
    }

    /// The waiters that are alive: token, claim in milliseconds, fences, whether they listen, kind as in the
    /// scripts.
    pub(crate) fn entries(
        &self,
        server_time: ServerTime,
        key: &Arc<str>,
    ) -> Vec<(String, u64, u32, bool, String)> {
        let Some(slot) = self.slots.get(key) else { return Vec::new() };
        let alive = slot.queue.iter().filter(|entry| entry.until > server_time);
        let words = |kind: LockKind| match kind {
            LockKind::Exclusive => "e".to_owned(),
            LockKind::Shared => "s".to_owned(),
            LockKind::Limited { max_holders: limit } => format!("p:{limit}"),
        };
        alive
            .map(|entry| {
                let claim = u64::try_from(entry.claim.as_millis()).unwrap_or(0);
                let text = token_text(&entry.client, entry.token);
                (text, claim, entry.fences, entry.listens, words(entry.kind))
            })
            .collect()
    }

    /// The last fencing token that was given.
    pub(crate) fn fence_counter(&self) -> u64 {
        self.last_fence
    }

    pub(crate) fn raise_fence(&mut self, last: u64) {
        self.last_fence = last;
    }

    pub(crate) fn lose_data(&mut self) {
        self.slots.clear();
        self.last_fence = 0;
    }

    pub(crate) fn lose_listeners(&mut self) {
        self.listeners.clear();
    }

    /// How many locks are held, and how many entries are in all queues.
    pub(crate) fn sizes(&self, server_time: ServerTime) -> (usize, usize) {
        let locks = self.slots.keys().filter(|key| self.value(server_time, key).is_some()).count();
        let alive = |slot: &KeyEntry| slot.queue.iter().filter(|entry| entry.until > server_time).count();
        (locks, self.slots.values().map(alive).sum())
    }

    /// How many locks have a text that their holder has published.
    pub(crate) fn published(&self) -> usize {
        let has_text = |slot: &&KeyEntry| slot.value.as_ref().is_some_and(|value| value.published.is_some());
        self.slots.values().filter(has_text).count()
    }

    /// Locks and queue entries, as token texts, with their keys.
    pub(crate) fn contents(&self, server_time: ServerTime) -> Vec<(Arc<str>, String)> {
        let mut all = Vec::new();
        for key in self.slots.keys() {
            all.extend(self.value(server_time, key).map(|(text, _)| (key.clone(), text.to_string())));
            let leases = self.leases(server_time, key);
            all.extend(leases.iter().map(|(text, ..)| (key.clone(), text.to_string())));
            let queued = self.queue(server_time, key);
            all.extend(queued.iter().map(|q| (key.clone(), token_text(&q.client, q.token))));
        }
        all.sort();
        all
    }
}
