//! A model of the scripts on a server, as a plain data structure: the memory backend's store, and the server of the
//! simulation. It has no clock: the time is passed in, and may jump.

mod key_entry;
mod note;
#[cfg(test)]
mod probe;
mod serving;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use key_entry::{HOLD, Sender};
pub(crate) use note::{News, Note};
#[cfg(test)]
pub(crate) use probe::Queued;

use crate::backend::{
    AcquireMode, AcquireReply, BatchReply, LockKind, OwnerDetails, ReleaseReply, Remaining, RenewReply,
    ServerTime, StoredLock, Tuning, kind_of, op, token_text,
};
use crate::protocol::mutated;
use distlock_store::kit::shrink::shrink;
use key_entry::{Admission, KeyEntry, QueueEntry, Value, plus, text};

#[derive(Debug)]
pub(crate) struct ModelServer {
    tuning: Tuning,
    slots: HashMap<Arc<str>, KeyEntry>,
    last_fence: u64,
    listeners: HashSet<Arc<str>>,
    /// Whether the count of a push's receivers proves that there is none.
    counts: bool,
    /// With this many slots, the expired ones are removed.
    sweep_at: usize,
}

const FIRST_SWEEP: usize = 1024;

impl ModelServer {
    pub(crate) fn new(tuning: Tuning) -> Self {
        ModelServer {
            tuning,
            slots: HashMap::new(),
            last_fence: 0,
            listeners: HashSet::new(),
            counts: true,
            sweep_at: FIRST_SWEEP,
        }
    }

    /// From now on pushes to `client` are received.
    pub(crate) fn subscribe(&mut self, client: &Arc<str>) {
        self.listeners.insert(client.clone());
    }

    /// From now on they are not.
    pub(crate) fn unsubscribe(&mut self, client: &str) {
        self.listeners.remove(client);
    }

    /// Executes one operation at `server_time`.
    pub(crate) fn acquire(
        &mut self,
        server_time: ServerTime,
        from: &Sender<'_>,
        op: &op::Ask,
        notes: &mut Vec<Note>,
    ) -> AcquireReply {
        self.sweep(server_time);
        let reply = match *op {
            op::Ask::Plain(op) => self.try_acquire(server_time, from, op),
            op::Ask::Full(op) => self.enter(server_time, from, op, notes),
        };
        self.tidy(from.key);
        reply
    }

    pub(crate) fn replace(
        &mut self,
        server_time: ServerTime,
        from: &Sender<'_>,
        op: &op::Replace,
    ) -> AcquireReply {
        self.sweep(server_time);
        let (text, until) = (text(from, op.token), plus(server_time, op.ttl));
        let slot = self.slot(from.key);
        let found = slot.live(server_time).map(|value| value.holder.clone());
        let ours = found.as_ref() == Some(&text);
        let theirs = found.as_ref() == Some(&op.holder);
        let blind = found.is_some() && mutated!(ReplacedWithoutCompare);
        if !(ours || theirs || blind) {
            self.tidy(from.key);
            return AcquireReply::NotHeld;
        }
        let before = slot.value.take().and_then(|value| value.until).filter(|_| ours);
        slot.value = Some(Value::new(text, before.unwrap_or(until).max(until)));
        let (server_time, fence) = (Some(server_time), self.mint(server_time, op.fences));
        if ours {
            AcquireReply::AlreadyHeld { server_time, fence }
        } else {
            AcquireReply::Acquired { server_time, fence }
        }
    }

    pub(crate) fn release(
        &mut self,
        server_time: ServerTime,
        from: &Sender<'_>,
        op: &op::Release,
        notes: &mut Vec<Note>,
    ) -> ReleaseReply {
        self.sweep(server_time);
        let reply = self.leave(server_time, from, *op, notes);
        self.tidy(from.key);
        reply
    }

    pub(crate) fn renew(&mut self, server_time: ServerTime, from: &Sender<'_>, op: &op::Renew) -> RenewReply {
        self.sweep(server_time);
        let reply = self.prolong(server_time, from, *op);
        self.tidy(from.key);
        reply
    }

    /// Executes operations that acquire locks, in order, up to the first that fails to.
    pub(crate) fn acquire_all(
        &mut self,
        server_time: ServerTime,
        client: &Arc<str>,
        batch: &[(Arc<str>, op::Acquire)],
        notes: &mut Vec<Note>,
    ) -> Vec<BatchReply> {
        let mut goes_on = true;
        let one = |(key, op): &(Arc<str>, op::Acquire)| {
            if !goes_on {
                return BatchReply::Skipped;
            }
            let reply = self.acquire(server_time, &Sender { client, key }, &op::Ask::Full(*op), notes);
            goes_on = reply.is_acquired();
            BatchReply::Tried(reply)
        };
        batch.iter().map(one).collect()
    }

    /// Forgets a key that is free and has no queue.
    fn tidy(&mut self, key: &Arc<str>) {
        if let Entry::Occupied(slot) = self.slots.entry(key.clone())
            && slot.get().value.is_none()
            && slot.get().queue.is_empty()
        {
            slot.remove();
            shrink(&mut self.slots);
        }
    }

    fn try_acquire(
        &mut self,
        server_time: ServerTime,
        from: &Sender<'_>,
        op: op::TryAcquire,
    ) -> AcquireReply {
        let op::TryAcquire { token, ttl } = op;
        let text = text(from, token);
        let slot = self.slot(from.key);
        match slot.live(server_time) {
            None => {
                slot.value = Some(Value::new(text, plus(server_time, ttl)));
                AcquireReply::Acquired { server_time: None, fence: None }
            }
            Some(value) if value.holder == text => {
                AcquireReply::AlreadyHeld { server_time: None, fence: None }
            }
            Some(_) => AcquireReply::Busy {
                server_time: None,
                holder: slot.in_the_way(server_time, LockKind::Exclusive).into(),
                remaining: Remaining::Unknown,
                front: false,
            },
        }
    }

    fn enter(
        &mut self,
        server_time: ServerTime,
        from: &Sender<'_>,
        ask: op::Acquire,
        notes: &mut Vec<Note>,
    ) -> AcquireReply {
        let op::Acquire { token, kind, claim, mode, fences, .. } = ask;
        let minted = mutated!(FenceMintedAtEnqueue).then(|| self.mint(server_time, fences)).flatten();
        let until = plus(server_time, self.tuning.queue_entry_ttl);
        let slot = self.slot(from.key);
        let (fresh, remaining) = match slot.admit(server_time, from, &ask) {
            Admission::Acquired => (true, None),
            Admission::AlreadyHeld => (false, None),
            Admission::Full(remaining) => (false, Some(remaining)),
            Admission::Clash(found) => return AcquireReply::WrongKind { found },
        };
        if let Some(remaining) = remaining {
            let holder = slot.in_the_way(server_time, kind);
            notes.extend(Note::wanted(&holder, from.key));
            if kind == LockKind::Exclusive && matches!(mode, AcquireMode::Wait | AcquireMode::Poll) {
                let readers = slot.readers(server_time);
                notes.extend(readers.iter().filter_map(|reader| Note::wanted_from(reader, from.key)));
            }
            let holder = holder.into();
            let mut front = false;
            if mode != AcquireMode::Try {
                let listens = matches!(mode, AcquireMode::Wait | AcquireMode::WaitAgain);
                let client = from.client.clone();
                let entry = QueueEntry { client, token, kind, until, claim, fences, listens, minted };
                front = slot.enqueue(server_time, entry);
            }
            return AcquireReply::Busy { server_time: Some(server_time), holder, remaining, front };
        }
        let again = matches!(mode, AcquireMode::WaitAgain | AcquireMode::PollAgain);
        if again && !mutated!(EntryLeftAfterDirectAcquire) {
            slot.remove(from.client, token);
        }
        // The waiters asked before this lease existed, and its client learns of them in no other way.
        if !slot.queue.is_empty() {
            notes.extend(Note::wanted(&text(from, token), from.key));
        }
        let fence = self.mint(server_time, fences);
        if fresh {
            AcquireReply::Acquired { server_time: Some(server_time), fence }
        } else {
            AcquireReply::AlreadyHeld { server_time: Some(server_time), fence }
        }
    }

    fn leave(
        &mut self,
        server_time: ServerTime,
        from: &Sender<'_>,
        op: op::Release,
        notes: &mut Vec<Note>,
    ) -> ReleaseReply {
        let op::Release { token, keep_taken_for, handoffs_began, .. } = op;
        let text = text(from, token);
        let slot = self.slot(from.key);
        if mutated!(CancelWithoutTestingKey) && handoffs_began == Some(ServerTime(u64::MAX)) {
            return if slot.remove(from.client, token) {
                ReleaseReply::Cancelled
            } else {
                ReleaseReply::NotHeld
            };
        }
        if slot.is_marked(server_time) && slot.members.iter().any(|(member, _)| *member == text) {
            slot.members.retain(|(member, _)| *member != text);
            if let Some(keep_taken_for) = keep_taken_for {
                // The token may have been released with `keep_taken_for` before: it keeps one place, until
                // the time of the later command.
                let holder: Arc<str> = format!("{HOLD}:{text}").into();
                slot.members.retain(|(member, _)| *member != holder);
                slot.members.push((holder, plus(server_time, keep_taken_for)));
            }
            slot.drop_expired_members(server_time);
            self.serve(server_time, from.key, handoffs_began, notes);
            return ReleaseReply::Released { gap: false };
        }
        let ours = slot.live(server_time).is_some_and(|value| value.holder == text);
        let blind = slot.value.is_some() && mutated!(ReleaseWithoutCompare);
        if !ours && !blind {
            if !slot.remove(from.client, token) {
                return ReleaseReply::NotHeld;
            }
            // The waiters behind it may be able to acquire now.
            if slot.is_marked(server_time) && !mutated!(NoServeAfterCancel) {
                slot.drop_expired_members(server_time);
                self.serve(server_time, from.key, handoffs_began, notes);
            }
            return ReleaseReply::Cancelled;
        }
        if let Some(keep_taken_for) = keep_taken_for {
            let holder = if mutated!(MinHoldKeepsToken) { text } else { HOLD.into() };
            slot.value = Some(Value::new(holder, plus(server_time, keep_taken_for)));
            return ReleaseReply::Released { gap: false };
        }
        self.hand_over(server_time, from.key, handoffs_began, notes)
    }

    fn prolong(&mut self, server_time: ServerTime, from: &Sender<'_>, op: op::Renew) -> RenewReply {
        let op::Renew { token, ttl, .. } = op;
        let text = text(from, token);
        let until = plus(server_time, ttl);
        let slot = self.slot(from.key);
        let half = if mutated!(RenewalChecksOnlyTheMarker) {
            slot.live(server_time).is_some_and(|value| kind_of(&value.holder) != LockKind::Exclusive)
        } else {
            mutated!(RenewalChecksOnlyTheMembers)
                && slot.members.iter().any(|(member, old)| *member == text && *old > server_time)
        };
        if half {
            return RenewReply::Renewed { server_time };
        }
        let listed = slot.members.iter().find(|(member, _)| *member == text).map(|(_, until)| *until);
        if slot.is_marked(server_time)
            && let Some(old) = listed.filter(|old| *old > server_time)
        {
            if old < until {
                slot.raise(server_time, &text, until);
            }
            return RenewReply::Renewed { server_time };
        }
        match slot.live(server_time) {
            Some(value) if value.holder == text => {
                if mutated!(RenewShortens) || value.until.is_some_and(|old| old < until) {
                    value.until = Some(until);
                }
                RenewReply::Renewed { server_time }
            }
            None if mutated!(RenewCreates) => {
                slot.value = Some(Value::new(text, until));
                RenewReply::Renewed { server_time }
            }
            _ => RenewReply::NotHeld,
        }
    }

    fn mint(&mut self, server_time: ServerTime, fences: u32) -> Option<u64> {
        if fences == 0 {
            return None;
        }
        let first = if mutated!(FenceWithoutMaximum) {
            server_time.0
        } else {
            server_time.0.max(self.last_fence + 1)
        };
        let reserved = if mutated!(GrantReservesOneChainUsesTwo) { 1 } else { u64::from(fences) };
        self.last_fence = first + reserved - 1;
        Some(first)
    }

    pub(crate) fn inspect(&mut self, server_time: ServerTime, key: &Arc<str>) -> Option<StoredLock> {
        let slot = self.slots.get_mut(key)?;
        let alive = slot.queue.iter().filter(|entry| entry.until > server_time);
        let waiting: Vec<String> = alive.map(|entry| token_text(&entry.client, entry.token)).collect();
        let value = slot.live(server_time)?.clone();
        let left = |until: ServerTime| Duration::from_micros(until.0.saturating_sub(server_time.0));
        let kind = kind_of(&value.holder);
        let mut found = waiting.into_iter().fold(StoredLock::new(kind), StoredLock::waiter);
        if kind != LockKind::Exclusive {
            let alive = slot.members.iter().filter(|(_, until)| *until > server_time);
            found.holders.extend(alive.map(|(member, until)| (member.to_string(), Some(left(*until)))));
        }
        if found.holders.is_empty() {
            found = found.holder(&*value.holder, value.until.map(left));
        }
        if let Some(text) = value.published {
            let details = OwnerDetails { value: Some(text.to_string()), ..OwnerDetails::default() };
            found.details.push((value.holder.to_string(), details));
        }
        Some(found.longest_first())
    }

    /// Stores a text next to the lock that `owner` holds, or removes it.
    pub(crate) fn publish(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        owner: &str,
        text: Option<Arc<str>>,
    ) {
        let value = self.slots.get_mut(key).and_then(|slot| slot.live(server_time));
        if let Some(value) = value.filter(|value| *value.holder == *owner) {
            value.published = text;
        }
    }

    /// Takes the lock away from its holder. False: it was free.
    pub(crate) fn force_release(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        notes: &mut Vec<Note>,
    ) -> bool {
        let value = self.slots.get_mut(key).and_then(|slot| slot.live(server_time).cloned());
        let Some(Value { holder, .. }) = value else { return false };
        notes.extend(Note::wanted(&holder, key));
        self.hand_over(server_time, key, None, notes);
        true
    }

    /// The same if `owner` is its holder, or ends the lease of that one of several holders. False: it is not.
    pub(crate) fn force_release_from(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        owner: &Arc<str>,
        notes: &mut Vec<Note>,
    ) -> bool {
        let slot = self.slot(key);
        if slot.live(server_time).is_some_and(|value| value.holder == *owner) {
            return self.force_release(server_time, key, notes);
        }
        if !slot.is_member(server_time, owner) {
            return false;
        }
        slot.members.retain(|(member, _)| member != owner);
        slot.drop_expired_members(server_time);
        self.serve(server_time, key, None, notes);
        true
    }

    fn slot(&mut self, key: &Arc<str>) -> &mut KeyEntry {
        self.slots.entry(key.clone()).or_default()
    }

    fn sweep(&mut self, server_time: ServerTime) {
        if self.slots.len() < self.sweep_at {
            return;
        }
        self.slots.retain(|_, slot| {
            slot.queue.retain(|entry| entry.until > server_time);
            slot.live(server_time).is_some() || !slot.queue.is_empty()
        });
        shrink(&mut self.slots);
        self.sweep_at = FIRST_SWEEP.max(self.slots.len() * 2);
    }
}
