//! Locks as JSON. Published names do not change. Unknown values are null.

use std::time::Duration;

use distlock::{LockClient, LockHolder, LockWaiter};
use serde_json::{Value, json};

use crate::words::{self, Parties};

pub(crate) fn millis(time: Option<Duration>) -> Option<u64> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// For a client of another library, the token replaces the client id.
fn client(client: Option<&LockClient>, token: Option<&str>) -> Value {
    let Some(client) = client else { return json!({ "client": token }) };
    let LockClient { id, host, pid, program, version, .. } = client;
    json!({ "client": id, "host": host, "pid": pid, "program": program, "version": version })
}

fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn holder(holder: &LockHolder) -> Value {
    let more = json!({
        "token": holder.token,
        "label": holder.label,
        "since_ms": millis(holder.since),
        "left_ms": millis(holder.remaining),
        "users": holder.users,
    });
    with(client(holder.client.as_ref(), Some(&holder.token)), more)
}

fn waiter(waiter: &LockWaiter) -> Value {
    let more = json!({
        "token": waiter.token,
        "label": waiter.label,
        "since_ms": millis(waiter.since),
        "requests": waiter.requests,
    });
    with(client(waiter.client.as_ref(), waiter.token.as_deref()), more)
}

/// A lock with its holders and waiters.
pub(crate) fn lock(parties: &Parties<'_>) -> Value {
    json!({
        "key": parties.key,
        "full_key": parties.full_key,
        "held": !parties.holders.is_empty(),
        "kind": words::kind(parties.kind),
        "holders": parties.holders.iter().map(holder).collect::<Vec<_>>(),
        "waiters": parties.waiters,
        "waiting": parties.waiting.iter().map(waiter).collect::<Vec<_>>(),
    })
}

/// A free lock.
pub(crate) fn free(key: &str) -> Value {
    json!({ "key": key, "held": false })
}
