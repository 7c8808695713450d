//! The data for the page, as JSON.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use distlock::{LockClient, LockEntry, LockHolder, LockKind, LockWaiter};
use serde_json::{Value, json};

use crate::as_json::millis;

/// At most this many waiting processes are shown for a lock.
const MOST_WAITERS: usize = 20;
/// At most this many holders are shown for a lock.
pub(super) const MOST_HOLDERS: usize = 50;

/// A lock on the page.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) kind: LockKind,
    pub(super) holders: Vec<Holder>,
    /// The number of holders that are not shown.
    pub(super) hidden: usize,
    pub(super) waiting: Vec<LockWaiter>,
    /// The number of waiting processes. It may be larger than the number of those that the store names.
    pub(super) waiters: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) one: LockHolder,
    /// Whether its process sends no heartbeat although its lease has not expired.
    pub(super) silent: bool,
}

/// `silent`: the clients that send no heartbeat.
pub(super) fn is_silent(holder: &LockHolder, silent: &HashSet<String>) -> bool {
    holder.client.as_ref().is_some_and(|client| silent.contains(&client.id))
}

/// A loss that a look has noticed.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    /// The number of this loss, from 0, since this server was started.
    pub(super) number: u64,
    pub(super) key: String,
    pub(super) holder: LockHolder,
    pub(super) why: &'static str,
    pub(super) seen: Instant,
}

impl Row {
    /// `silent`: the clients that send no heartbeat.
    pub(super) fn new(entry: LockEntry, silent: &HashSet<String>) -> Self {
        let LockEntry { key, kind, mut holders, mut waiting, waiters, .. } = entry;
        let hidden = holders.len().saturating_sub(MOST_HOLDERS);
        holders.truncate(MOST_HOLDERS);
        waiting.truncate(MOST_WAITERS);
        let holders =
            holders.into_iter().map(|one| Holder { silent: is_silent(&one, silent), one }).collect();
        Row { key, kind, holders, hidden, waiting, waiters }
    }

    /// How long it has been held.
    pub(super) fn age(&self) -> Option<Duration> {
        self.holders.iter().filter_map(|holder| holder.one.since).max()
    }

    fn is_silent(&self) -> bool {
        self.holders.iter().any(|holder| holder.silent)
    }

    /// If not all locks can be shown, those with the smallest rank are shown: locks with waiters, locks of silent
    /// holders, and locks that were held longest.
    pub(super) fn rank(&self) -> impl Ord + '_ {
        let (awaited, silent) = (self.waiters > 0, self.is_silent());
        (Reverse((awaited || silent, self.age())), &self.key)
    }

    pub(super) fn json(&self) -> Value {
        let holders: Vec<Value> = self.holders.iter().map(Holder::json).collect();
        let waiting: Vec<Value> = self.waiting.iter().map(waiter).collect();
        json!({
            "key": self.key,
            "kind": kind_of(self.kind),
            "holders": holders,
            "waiting": waiting,
            "waiters": self.waiters,
            "more_waiting": self.waiters.saturating_sub(self.waiting.len() as u64),
        })
    }
}

impl Holder {
    fn json(&self) -> Value {
        let one = &self.one;
        json!({
            "who": who(one.client.as_ref(), &one.token),
            "token": one.token,
            "label": one.label,
            "since": millis(one.since),
            "remaining": millis(one.remaining),
            "silent": self.silent,
        })
    }
}

fn waiter(waiter: &LockWaiter) -> Value {
    json!({
        "who": who(waiter.client.as_ref(), waiter.token.as_deref().unwrap_or_default()),
        "token": waiter.token,
        "label": waiter.label,
        "since": millis(waiter.since),
        "requests": waiter.requests,
    })
}

impl Loss {
    pub(super) fn json(&self) -> Value {
        json!({
            "number": self.number,
            "key": self.key,
            "who": who(self.holder.client.as_ref(), &self.holder.token),
            "token": self.holder.token,
            "label": self.holder.label,
            "ago": millis(Some(self.seen.elapsed())),
            "why": self.why,
        })
    }
}

/// The program and its machine, as far as they are known.
fn who(client: Option<&LockClient>, token: &str) -> String {
    let Some(client) = client else { return format!("a client of another program: {token}") };
    let program = client.program.as_deref().unwrap_or(&client.id);
    let pid = client.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    let host = client.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    format!("{program}{pid}{host}")
}

fn kind_of(kind: LockKind) -> String {
    match kind {
        LockKind::Exclusive => "exclusive".to_owned(),
        LockKind::Shared => "shared".to_owned(),
        LockKind::Limited { max_holders } => format!("at most {max_holders}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiters_that_cannot_be_named_are_counted() {
        let manager = distlock::LockManager::in_memory();
        let _guard = manager.lock("k").acquire().await.unwrap();
        let mut entry = manager.list("*").next().await.unwrap().unwrap();
        entry.waiters = 3;
        let row = Row::new(entry, &HashSet::new()).json();
        assert_eq!((&row["waiters"], &row["more_waiting"]), (&3.into(), &3.into()));
    }
}
