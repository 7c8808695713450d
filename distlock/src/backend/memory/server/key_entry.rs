//! One key of the model server: the lock, and the queue for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    LIMITED_MARKER, LockKind, Remaining, SHARED_MARKER, ServerTime, Token, kind_of, op, shared_token_text,
};
use crate::protocol::mutated;

/// The value of a key that `min_hold` keeps after its release: no token.
pub(crate) const HOLD: &str = "dl1:hold";

/// How many readers learn that a writer waits.
const READERS_TOLD: usize = 64;

/// A process in the queue.
#[derive(Clone, Debug)]
pub(super) struct QueueEntry {
    pub(super) client: Arc<str>,
    pub(super) token: Token,
    pub(super) kind: LockKind,
    pub(super) until: ServerTime,
    pub(super) claim: Duration,
    pub(super) fences: u32,
    pub(super) listens: bool,
    /// Used only by the fault that reserves fencing tokens too early.
    pub(super) minted: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) holder: Arc<str>,
    /// `None`: never expires.
    pub(super) until: Option<ServerTime>,
    /// The text that the holder has published. It ends with the hold.
    pub(super) published: Option<Arc<str>>,
}

impl Value {
    pub(super) fn new(holder: Arc<str>, until: ServerTime) -> Self {
        Value { holder, until: Some(until), published: None }
    }
}

/// One key: the lock, and the queue for it.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyEntry {
    pub(super) value: Option<Value>,
    /// The holders of a shared or limited lock, and until when. Only valid while `value` is their marker.
    pub(super) members: Vec<(Arc<str>, ServerTime)>,
    pub(super) queue: VecDeque<QueueEntry>,
}

/// The client that sends an operation.
#[derive(Clone, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) client: &'a Arc<str>,
    pub(crate) key: &'a Arc<str>,
}

/// The state that an acquire command found.
pub(super) enum Admission {
    Acquired,
    AlreadyHeld,
    /// Other holders have it, for this long.
    Full(Remaining),
    /// The key is in use for another kind of lock.
    Clash(Arc<str>),
}

pub(super) fn marker(kind: LockKind) -> Arc<str> {
    match kind {
        LockKind::Limited { max_holders: limit } => format!("{LIMITED_MARKER}{limit}").into(),
        LockKind::Shared | LockKind::Exclusive => SHARED_MARKER.into(),
    }
}

impl KeyEntry {
    pub(super) fn admit(
        &mut self,
        server_time: ServerTime,
        from: &Sender<'_>,
        ask: &op::Acquire,
    ) -> Admission {
        let text = text(from, ask.token);
        let until = plus(server_time, ask.ttl);
        let Some(value) = self.live(server_time) else {
            self.put(server_time, ask.kind, text, until);
            return Admission::Acquired;
        };
        let (holder, value_until) = (value.holder.clone(), value.until);
        if holder == text {
            if value_until.is_some_and(|old| old < until) && !mutated!(AlreadyHeldDoesNotExtend) {
                value.until = Some(until);
            }
            return Admission::AlreadyHeld;
        }
        let there = kind_of(&holder);
        let left =
            |until: ServerTime| Remaining::For(Duration::from_micros(until.0.saturating_sub(server_time.0)));
        let clash = match (there, ask.kind) {
            (LockKind::Limited { max_holders: a }, LockKind::Limited { max_holders: b }) => a != b,
            (LockKind::Limited { .. }, _) | (LockKind::Shared, LockKind::Limited { .. }) => true,
            (LockKind::Exclusive, LockKind::Limited { .. }) => holder.starts_with("dl1:") && &*holder != HOLD,
            _ => false,
        };
        if clash {
            return Admission::Clash(there.to_string().into());
        }
        if there == LockKind::Exclusive || ask.kind == LockKind::Exclusive {
            return Admission::Full(value_until.map_or(Remaining::Forever, left));
        }
        if self.is_member(server_time, &text) {
            self.raise(server_time, &text, until);
            return Admission::AlreadyHeld;
        }
        if self.has_room(server_time, ask.kind) {
            // Only if there is room: a waiter that asks again just before a place becomes free keeps its
            // place in the queue.
            self.drop_dead(server_time);
            let my_turn = self.queue.front().is_none_or(|e| e.token == ask.token && e.client == *from.client);
            let passes = mutated!(ReaderPassesWriter) && ask.kind == LockKind::Shared;
            if my_turn || passes {
                self.put(server_time, ask.kind, text, until);
                return Admission::Acquired;
            }
        }
        let ends = self.members.iter().map(|(_, until)| *until);
        let first_out = if mutated!(LimitedTimerFromMarker) { ends.max() } else { ends.min() };
        Admission::Full(first_out.map_or(Remaining::Unknown, left))
    }

    /// The holder that a request for `kind` waits for. If there are several: the last to expire, or the first
    /// if one place is enough.
    pub(super) fn in_the_way(&mut self, server_time: ServerTime, kind: LockKind) -> Arc<str> {
        let Some(value) = self.live(server_time) else { return HOLD.into() };
        let holder = value.holder.clone();
        if kind_of(&holder) == LockKind::Exclusive {
            return holder;
        }
        let alive = self.members.iter().filter(|(_, until)| *until > server_time);
        // Leases that were granted together expire together: then the order of their texts decides.
        let order = |(member, until): &&(Arc<str>, ServerTime)| (*until, member.clone());
        let found = match kind {
            LockKind::Exclusive => alive.max_by_key(order),
            LockKind::Shared | LockKind::Limited { .. } => alive.min_by_key(order),
        };
        found.map_or(holder, |(member, _)| member.clone())
    }

    /// The readers that a writer asks to let no others join: the last to expire, if there are many.
    pub(super) fn readers(&mut self, server_time: ServerTime) -> Vec<Arc<str>> {
        if self.live(server_time).is_none_or(|value| kind_of(&value.holder) != LockKind::Shared) {
            return Vec::new();
        }
        let mut readers = self.members.clone();
        readers.retain(|(_, until)| *until > server_time);
        readers.sort_unstable_by(|(a, a_until), (b, b_until)| (b_until, b).cmp(&(a_until, a)));
        readers.into_iter().map(|(reader, _)| reader).take(READERS_TOLD).collect()
    }

    /// Whether one more holder of `kind` is possible.
    pub(super) fn has_room(&mut self, server_time: ServerTime, kind: LockKind) -> bool {
        let Some(value) = self.live(server_time) else { return true };
        let there = kind_of(&value.holder);
        match kind {
            LockKind::Exclusive => false,
            LockKind::Shared => there == LockKind::Shared,
            LockKind::Limited { max_holders: limit } => {
                there == kind && self.members.len() < usize::try_from(limit).unwrap_or(usize::MAX)
            }
        }
    }

    /// Adds `holder`. Never shortens its lease.
    pub(super) fn put(
        &mut self,
        server_time: ServerTime,
        kind: LockKind,
        holder: Arc<str>,
        until: ServerTime,
    ) {
        if kind == LockKind::Exclusive {
            self.value = Some(Value::new(holder, until));
            return;
        }
        if self.live(server_time).is_none() {
            if !mutated!(MembersOutliveTheirMarker) {
                self.members.clear();
            }
            self.value = Some(Value::new(marker(kind), until));
        }
        // It may hold the lock already, by a late command.
        let known = self.members.iter().position(|(member, _)| *member == holder);
        let before = known.map(|at| self.members.remove(at).1);
        self.members.push((holder, before.map_or(until, |before| before.max(until))));
        self.drop_expired_members(server_time);
    }

    /// Whether the marker is there and `holder` is among its holders.
    pub(super) fn is_member(&mut self, server_time: ServerTime, holder: &Arc<str>) -> bool {
        self.is_marked(server_time) && {
            self.members.retain(|(_, until)| *until > server_time);
            self.members.iter().any(|(member, _)| member == holder)
        }
    }

    pub(super) fn is_marked(&mut self, server_time: ServerTime) -> bool {
        self.live(server_time).is_some_and(|value| kind_of(&value.holder) != LockKind::Exclusive)
    }

    pub(super) fn raise(&mut self, server_time: ServerTime, holder: &Arc<str>, until: ServerTime) {
        for (member, old) in &mut self.members {
            if member == holder && *old < until {
                *old = until;
            }
        }
        self.drop_expired_members(server_time);
    }

    /// The marker lives as long as the last holder, and not without any.
    pub(super) fn drop_expired_members(&mut self, server_time: ServerTime) {
        self.members.retain(|(_, until)| *until > server_time);
        let last = self.members.iter().map(|(_, until)| *until).max();
        match (last, &mut self.value) {
            (Some(last), Some(value)) => value.until = Some(last),
            _ => self.value = None,
        }
    }

    pub(super) fn drop_dead(&mut self, server_time: ServerTime) {
        while self.queue.front().is_some_and(|first| first.until <= server_time)
            && !mutated!(DeadEntriesNotSkipped)
        {
            self.queue.pop_front();
        }
    }

    pub(super) fn live(&mut self, server_time: ServerTime) -> Option<&mut Value> {
        if self.value.as_ref().is_some_and(|value| value.until.is_some_and(|until| until <= server_time)) {
            self.value = None;
        }
        self.value.as_mut()
    }

    /// Adds the entry, or refreshes it in its place. True if it is the first that is alive.
    pub(super) fn enqueue(&mut self, server_time: ServerTime, entry: QueueEntry) -> bool {
        let token = entry.token;
        let client = entry.client.clone();
        match self.queue.iter_mut().find(|e| e.token == token && e.client == client) {
            Some(old) => *old = entry,
            None => self.queue.push_back(entry),
        }
        self.drop_dead(server_time);
        self.queue.front().is_some_and(|first| first.token == token && first.client == client)
    }

    pub(super) fn remove(&mut self, client: &Arc<str>, token: Token) -> bool {
        let before = self.queue.len();
        self.queue.retain(|entry| entry.token != token || entry.client != *client);
        self.queue.len() < before
    }
}

pub(super) fn text(from: &Sender<'_>, token: Token) -> Arc<str> {
    shared_token_text(from.client, token)
}

pub(super) fn plus(server_time: ServerTime, d: Duration) -> ServerTime {
    ServerTime(server_time.0.saturating_add(micros(d)))
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}
