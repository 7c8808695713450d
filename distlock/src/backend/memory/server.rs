//! A model of the scripts on a server, as a plain data structure: the memory backend's store, and the server of the
//! simulation. It has no clock: the time is passed in, and may jump.

mod key_entry;
#[cfg(test)]
mod probe;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use key_entry::{HOLD, Sender};
#[cfg(test)]
pub(crate) use probe::Queued;

use crate::backend::{
    AcquireMode, AcquireReply, BatchReply, LockKind, Push, ReleaseReply, Remaining, RenewReply, ServerTime,
    StoredLock, Token, Tuning, kind_of, op, parse_owner, shared_token_text, token_text,
};
use crate::protocol::mutated;
use distlock_store::kit::shrink::shrink;
use key_entry::{Admission, KeyEntry, QueueEntry, Value, plus, text};

/// A push and its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) client: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) news: News,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Grant {
        server_time: ServerTime,
        handoffs_began: ServerTime,
        fence: Option<u64>,
    },
    Gap,
    /// Another client wants the lock. It is sent to a holder whose lease may linger, and to readers when a writer
    /// queues behind them.
    Wanted,
}

impl Note {
    /// The message, as its receiver gets it.
    pub(crate) fn push(self) -> Push {
        let Note { key, token, news, .. } = self;
        match news {
            News::Grant { server_time, handoffs_began, fence } => {
                Push::Grant { key, token, server_time, handoffs_began, fence }
            }
            News::Gap => Push::Gap { key, token },
            News::Wanted => Push::Wanted { key, token },
        }
    }

    /// For the holder, if its lease may linger.
    fn wanted(holder: &str, key: &Arc<str>) -> Option<Note> {
        Note::wanted_from(holder, key).filter(|note| note.token.linger().is_some())
    }

    fn wanted_from(holder: &str, key: &Arc<str>) -> Option<Note> {
        // A place that `min_hold` keeps reads like a token of a client with a colon in its name.
        let (client, token) = parse_owner(holder).filter(|(client, _)| !client.contains(':'))?;
        Some(Note { client: client.into(), key: key.clone(), token, news: News::Wanted })
    }
}

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
        slot.value = Some(Value { holder: text, until: Some(before.unwrap_or(until).max(until)) });
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
        if self.slots.get(key).is_some_and(|slot| slot.value.is_none() && slot.queue.is_empty()) {
            self.slots.remove(key);
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
                slot.value = Some(Value { holder: text, until: Some(plus(server_time, ttl)) });
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
            slot.value = Some(Value { holder, until: Some(plus(server_time, keep_taken_for)) });
            return ReleaseReply::Released { gap: false };
        }
        self.hand_over(server_time, from.key, handoffs_began, notes)
    }

    /// Frees the key, for the queue or (in a gap) for any client.
    fn hand_over(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        handoffs_began: Option<ServerTime>,
        notes: &mut Vec<Note>,
    ) -> ReleaseReply {
        let handoffs_began = handoffs_began.unwrap_or(server_time);
        let slot = self.slot(key);
        slot.value = None;
        slot.members.clear();
        let is_gap = self.tuning.poll_gap_is_due(handoffs_began.0, server_time.0);
        let offer = if is_gap { Offer::Gap } else { Offer::Lock };
        self.serve_run(server_time, key, handoffs_began, offer, notes)
    }

    fn serve(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        handoffs_began: Option<ServerTime>,
        notes: &mut Vec<Note>,
    ) {
        let handoffs_began = handoffs_began.unwrap_or(server_time);
        self.serve_run(server_time, key, handoffs_began, Offer::Lock, notes);
    }

    /// Grants the lock to all waiters at the front of the queue that are compatible with the holders, or tells the
    /// first one that there is a gap.
    fn serve_run(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        handoffs_began: ServerTime,
        offer: Offer,
        notes: &mut Vec<Note>,
    ) -> ReleaseReply {
        while let Some(entry) = self.slot(key).queue.pop_front() {
            if entry.until <= server_time && !mutated!(DeadEntriesNotSkipped) {
                continue;
            }
            let (client, token, kind) = (entry.client.clone(), entry.token, entry.kind);
            if !self.slot(key).has_room(server_time, kind) {
                self.slot(key).queue.push_front(entry);
                break;
            }
            // A waiter that polls gets its fencing token when it asks.
            let fences = if entry.listens { entry.fences } else { 0 };
            if !self.is_heard(&entry) {
                // The script learns this only after it has reserved the tokens.
                self.mint(server_time, if offer == Offer::Gap { 0 } else { fences });
                continue;
            }
            let mut note = |news| {
                if entry.listens {
                    notes.push(Note { client: client.clone(), key: key.clone(), token, news });
                }
            };
            if offer == Offer::Gap {
                if self.tuning.poll_gap_interval.is_zero() {
                    if !entry.listens {
                        continue;
                    }
                    note(News::Grant { server_time, handoffs_began, fence: None });
                    let holder = shared_token_text(&client, token);
                    self.slot(key).put(server_time, kind, holder, plus(server_time, entry.claim));
                } else {
                    note(News::Gap);
                    self.slot(key).queue.push_front(entry);
                }
                return ReleaseReply::Released { gap: true };
            }
            let fence = entry.minted.or_else(|| self.mint(server_time, fences));
            note(News::Grant { server_time, handoffs_began, fence });
            let holder = shared_token_text(&client, token);
            self.slot(key).put(server_time, kind, holder, plus(server_time, entry.claim));
        }
        ReleaseReply::Released { gap: false }
    }

    /// Whether a grant would reach its client, as far as can be known.
    fn is_heard(&self, entry: &QueueEntry) -> bool {
        if mutated!(DeadEntriesNotSkipped) {
            return true;
        }
        let counts = self.counts || mutated!(PublishCountTrusted);
        let heard = !counts || (self.counts && self.listeners.contains(&entry.client));
        if entry.listens { heard } else { !mutated!(PollWaiterDropped) }
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
                slot.value = Some(Value { holder: text, until: Some(until) });
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
        Some(found.longest_first())
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

/// The offer to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Lock,
    /// The key is left free for plain pollers.
    Gap,
}
