//! What the page is told, as JSON.

use std::time::Duration;

use distlock::{LockClient, LockEntry, LockHolder, LockKind, LockWaiter};
use serde_json::{Value, json};

/// So many waiting processes are shown for a lock.
const MOST_WAITERS: usize = 20;
/// So many holders.
pub(super) const MOST_HOLDERS: usize = 50;

/// A loss that was seen.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    pub(super) key: String,
    pub(super) holder: Value,
    pub(super) why: &'static str,
    pub(super) seen: std::time::Instant,
}

pub(super) fn lock(entry: &LockEntry) -> Value {
    let holders: Vec<Value> =
        entry.holders.iter().take(MOST_HOLDERS).map(|one| holder(one, Silent::No)).collect();
    let waiting: Vec<Value> = entry.waiting.iter().take(MOST_WAITERS).map(waiter).collect();
    json!({
        "key": entry.key,
        "kind": kind(entry.kind),
        "holders": holders,
        "waiting": waiting,
        "more_waiting": entry.waiting.len().saturating_sub(MOST_WAITERS),
    })
}

/// Whether the process of a holder has stopped to answer, although its lease lasts still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silent {
    No,
    Yes,
}

pub(super) fn holder(holder: &LockHolder, silent: Silent) -> Value {
    json!({
        "who": who(holder.client.as_ref(), &holder.token),
        "token": holder.token,
        "label": holder.label,
        "since": millis(holder.since),
        "remaining": millis(holder.remaining),
        "silent": silent == Silent::Yes,
    })
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

pub(super) fn loss(loss: &Loss) -> Value {
    json!({
        "key": loss.key,
        "who": loss.holder["who"],
        "token": loss.holder["token"],
        "label": loss.holder["label"],
        "ago": millis(Some(loss.seen.elapsed())),
        "why": loss.why,
    })
}

/// The program and its place, as far as they are known.
fn who(client: Option<&LockClient>, token: &str) -> String {
    let Some(client) = client else { return format!("a client of another make: {token}") };
    let program = client.program.as_deref().unwrap_or(&client.id);
    let pid = client.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    let host = client.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    format!("{program}{pid}{host}")
}

pub(super) fn kind(kind: LockKind) -> String {
    match kind {
        LockKind::Exclusive => "exclusive".to_owned(),
        LockKind::Shared => "shared".to_owned(),
        LockKind::Limited { max_holders } => format!("at most {max_holders}"),
        _ => "other".to_owned(),
    }
}

fn millis(time: Option<Duration>) -> Option<u64> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
