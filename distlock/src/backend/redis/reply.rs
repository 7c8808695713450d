//! Parses replies. A reply with an unexpected shape or another token is [`Garbled`]: on such a link replies
//! no longer belong to their commands.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::backend::{
    AcquireReply, BatchReply, FenceReply, LockKind, ReleaseReply, Remaining, RenewReply, ServerTime,
    StoredLock, Token, kind_of, op, parse_token,
};

/// A reply that cannot belong to the command.
#[derive(Debug)]
pub(crate) struct Garbled;

/// The report for a key of another type. The server's error does not name the type.
const OTHER_TYPE: &str = "a value that is not a string";

fn wrong_type() -> AcquireReply {
    AcquireReply::WrongKind { found: Arc::from(OTHER_TYPE) }
}

/// The reply to `SET NX GET`.
pub(super) fn of_set(client: &str, token: Token, value: &Value) -> Result<AcquireReply, Garbled> {
    match value {
        Value::Nil => Ok(AcquireReply::Acquired { server_time: None, fence: None }),
        Value::BulkString(holder) => {
            let holder = String::from_utf8_lossy(holder);
            if parse_token(client, &holder) == Some(token) {
                return Ok(AcquireReply::AlreadyHeld { server_time: None, fence: None });
            }
            Ok(AcquireReply::Busy {
                server_time: None,
                holder: (&*holder).into(),
                remaining: Remaining::Unknown,
                front: false,
            })
        }
        Value::ServerError(error) if error.code() == "WRONGTYPE" => Ok(wrong_type()),
        _ => Err(Garbled),
    }
}

/// The status of a script's reply, and what follows the token.
fn parts<'a>(client: &str, token: Token, value: &'a Value) -> Result<(&'a str, &'a [Value]), Garbled> {
    let Value::Array(fields) = value else { return Err(Garbled) };
    let status = text(fields.first())?;
    if parse_token(client, text(fields.get(1))?) != Some(token) {
        return Err(Garbled);
    }
    Ok((status, fields.get(2..).unwrap_or_default()))
}

/// The reply of the scripts that acquire.
pub(super) fn of_acquire(client: &str, op: &op::Acquire, value: &Value) -> Result<AcquireReply, Garbled> {
    let (status, rest) = parts(client, op.token, value)?;
    match (status, rest) {
        ("FRESH", rest) => {
            let (server_time, fence) = won(rest)?;
            Ok(AcquireReply::Acquired { server_time, fence })
        }
        ("MINE", rest) => {
            let (server_time, fence) = won(rest)?;
            Ok(AcquireReply::AlreadyHeld { server_time, fence })
        }
        ("BUSY", [server_time, Value::BulkString(holder), Value::Int(remaining), Value::Int(front)]) => {
            Ok(AcquireReply::Busy {
                server_time: Some(parse_server_time(server_time)?),
                holder: (&*String::from_utf8_lossy(holder)).into(),
                remaining: match *remaining {
                    -1 => Remaining::Forever,
                    // -2: it expired between two commands of the script.
                    millis => Remaining::For(Duration::from_millis(u64::try_from(millis).unwrap_or(0))),
                },
                front: *front == 1,
            })
        }
        ("WRONGTYPE", _) => Ok(wrong_type()),
        ("WRONGKIND", [_, Value::BulkString(holder)]) => {
            Ok(AcquireReply::WrongKind { found: other_kind(op.kind, &String::from_utf8_lossy(holder)) })
        }
        _ => Err(Garbled),
    }
}

/// The reply of the script that takes a lock over.
pub(super) fn of_replace(client: &str, op: &op::Replace, value: &Value) -> Result<AcquireReply, Garbled> {
    let (status, rest) = parts(client, op.token, value)?;
    if status == "NOT_YOURS" {
        return Ok(AcquireReply::NotHeld);
    }
    let (server_time, fence) = won(rest)?;
    match status {
        "FRESH" => Ok(AcquireReply::Acquired { server_time, fence }),
        "MINE" => Ok(AcquireReply::AlreadyHeld { server_time, fence }),
        _ => Err(Garbled),
    }
}

/// The reply of the script that releases.
pub(super) fn of_release(client: &str, op: &op::Release, value: &Value) -> Result<ReleaseReply, Garbled> {
    if let Value::BulkString(_) = value {
        let released = text(Some(value))?.strip_prefix("RELEASED ").ok_or(Garbled)?;
        let ours = parse_token(client, released) == Some(op.token);
        return if ours { Ok(ReleaseReply::Released { gap: false }) } else { Err(Garbled) };
    }
    match parts(client, op.token, value)? {
        ("RELEASED", [Value::Int(gap)]) => Ok(ReleaseReply::Released { gap: *gap == 1 }),
        ("CANCELLED", _) => Ok(ReleaseReply::Cancelled),
        ("NOT_YOURS", _) => Ok(ReleaseReply::NotHeld),
        _ => Err(Garbled),
    }
}

/// The reply of the scripts that renew.
pub(super) fn of_renew(client: &str, op: &op::Renew, value: &Value) -> Result<RenewReply, Garbled> {
    match parts(client, op.token, value)? {
        ("RENEWED", [server_time]) => {
            Ok(RenewReply::Renewed { server_time: parse_server_time(server_time)? })
        }
        ("NOT_YOURS", _) => Ok(RenewReply::NotHeld),
        _ => Err(Garbled),
    }
}

/// The reply of the script that raises the counter of fencing tokens.
pub(super) fn of_fence(client: &str, op: &op::Fence, value: &Value) -> Result<FenceReply, Garbled> {
    match parts(client, op.token, value)? {
        ("FENCED", [last]) => Ok(FenceReply::Fenced { last: number(last)? }),
        ("NOT_YOURS", _) => Ok(FenceReply::NotHeld),
        _ => Err(Garbled),
    }
}

/// The reply of the scripts that acquire several locks: one part for each, up to the first that was not
/// acquired.
pub(super) fn of_enter_all(
    client: &str,
    batch: &[(Arc<str>, op::Acquire)],
    value: &Value,
) -> Result<Vec<BatchReply>, Garbled> {
    let Value::Array(values) = value else { return Err(Garbled) };
    if values.is_empty() || values.len() > batch.len() {
        return Err(Garbled);
    }
    let mut replies = Vec::with_capacity(batch.len());
    let mut taken = 0;
    for ((_, op), value) in batch.iter().zip(values) {
        let reply = of_acquire(client, op, value)?;
        // It must end at the first that was not acquired.
        if taken < replies.len() {
            return Err(Garbled);
        }
        taken += usize::from(reply.is_acquired());
        replies.push(BatchReply::Tried(reply));
    }
    if values.len() != batch.len().min(taken + 1) {
        return Err(Garbled);
    }
    replies.resize(batch.len(), BatchReply::Skipped);
    Ok(replies)
}

/// The reply of the `force` script: whether there was a lock, of the owner that was named.
pub(super) fn of_force(value: &Value) -> Result<bool, Garbled> {
    let Value::Array(fields) = value else { return Err(Garbled) };
    match text(fields.first())? {
        "FREE" | "NOT_HELD" => Ok(false),
        "RELEASED" => Ok(true),
        _ => Err(Garbled),
    }
}

/// The reply to TIME.
pub(super) fn of_time(value: &Value) -> Option<ServerTime> {
    let Value::Array(parts) = value else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    let (seconds, micros) = (number(seconds).ok()?, number(micros).ok()?);
    Some(ServerTime(seconds.checked_mul(1_000_000)?.checked_add(micros)?))
}

/// The present use of a lock's key, if it excludes a lock of kind `wanted`.
fn other_kind(wanted: LockKind, holder: &str) -> Arc<str> {
    let found = kind_of(holder);
    if wanted == found {
        return format!("{found} of managers that spell the key with another prefix").into();
    }
    found.to_string().into()
}

/// The reply of the script that looks at a lock.
pub(super) fn of_look(value: &Value) -> Result<Option<StoredLock>, Garbled> {
    let fields = match value {
        Value::Nil => return Ok(None),
        Value::Array(fields) => fields.as_slice(),
        _ => return Err(Garbled),
    };
    let [Value::BulkString(holder), Value::Int(remaining), Value::Int(waiters), members, queue] = fields
    else {
        return Err(Garbled);
    };
    let text = String::from_utf8_lossy(holder);
    let kind = kind_of(&text);
    let remaining = u64::try_from(*remaining).ok().map(Duration::from_millis);
    let mut found = StoredLock::new(kind).waiters(u64::try_from(*waiters).unwrap_or(0));
    if kind != LockKind::Exclusive {
        found.holders = of_members(members, remaining);
    }
    if found.holders.is_empty() {
        found = found.holder(text, remaining);
    }
    found.waiting = of_queue(queue);
    Ok(Some(found))
}

/// The reply of the script that reads a record. A record without an expiry is not one of distlock.
pub(super) fn of_record(value: &Value) -> Result<Option<(String, Duration)>, Garbled> {
    let fields = match value {
        Value::Nil => return Ok(None),
        Value::Array(fields) => fields.as_slice(),
        _ => return Err(Garbled),
    };
    let [Value::BulkString(record), Value::Int(left)] = fields else { return Err(Garbled) };
    let left = u64::try_from(*left).ok().map(Duration::from_millis);
    Ok(String::from_utf8(record.clone()).ok().zip(left))
}

/// The reply of the script that searches names. Names that are not text are not those of distlock.
pub(super) fn of_scan(value: &Value) -> Result<(String, Vec<String>), Garbled> {
    let Value::Array(fields) = value else { return Err(Garbled) };
    let [cursor, Value::Array(names)] = fields.as_slice() else { return Err(Garbled) };
    let names = names.iter().filter_map(|name| text(Some(name)).ok()).map(str::to_owned).collect();
    Ok((text(Some(cursor))?.to_owned(), names))
}

/// Members and their expiry, the latest first, which is `remaining` away.
fn of_members(value: &Value, remaining: Option<Duration>) -> Vec<(String, Option<Duration>)> {
    let Value::Array(parts) = value else { return Vec::new() };
    let read = |pair: &[Value]| match pair {
        [Value::BulkString(token), score] => {
            Some((String::from_utf8_lossy(token).into_owned(), number(score).ok()?))
        }
        _ => None,
    };
    let members: Vec<(String, u64)> = parts.chunks(2).filter_map(read).collect();
    let last = members.first().map_or(0, |(_, expiry)| *expiry);
    let left = |expiry: u64| remaining?.checked_sub(Duration::from_micros(last.saturating_sub(expiry)));
    members.into_iter().filter_map(|(token, expiry)| Some((token, Some(left(expiry)?)))).collect()
}

/// The tokens of the waiters.
fn of_queue(value: &Value) -> Vec<String> {
    let Value::Array(tokens) = value else { return Vec::new() };
    tokens.iter().filter_map(|token| text(Some(token)).ok()).map(str::to_owned).collect()
}

/// The reply to ZREVRANGE for one member.
pub(super) fn of_last_member(value: &Value) -> Option<Arc<str>> {
    let Value::Array(parts) = value else { return None };
    text(parts.first()).ok().map(Arc::from)
}

fn won(rest: &[Value]) -> Result<(Option<ServerTime>, Option<u64>), Garbled> {
    match rest {
        [server_time] => Ok((Some(parse_server_time(server_time)?), None)),
        [server_time, fence] => Ok((Some(parse_server_time(server_time)?), Some(number(fence)?))),
        _ => Err(Garbled),
    }
}

fn parse_server_time(value: &Value) -> Result<ServerTime, Garbled> {
    number(value).map(ServerTime)
}

fn number(value: &Value) -> Result<u64, Garbled> {
    text(Some(value))?.parse().map_err(|_| Garbled)
}

fn text(value: Option<&Value>) -> Result<&str, Garbled> {
    match value {
        Some(Value::BulkString(bytes)) => std::str::from_utf8(bytes).map_err(|_| Garbled),
        Some(Value::SimpleString(text)) => Ok(text),
        _ => Err(Garbled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_reply_that_names_another_token_is_garbled() {
        let op = op::Renew {
            token: Token(7),
            kind: LockKind::Exclusive,
            ttl: Duration::from_secs(1),
            last: false,
        };
        let reply = |token: &str| Value::Array(vec![bulk("RENEWED"), bulk(token), bulk("5")]);
        assert_eq!(
            of_renew("c", &op, &reply("dl1:c:7")).unwrap(),
            RenewReply::Renewed { server_time: ServerTime(5) }
        );
        assert!(of_renew("c", &op, &reply("dl1:c:8")).is_err());
        assert!(of_renew("d", &op, &reply("dl1:c:7")).is_err());
    }

    #[test]
    fn a_reply_of_another_shape_is_garbled() {
        let leave = op::Release::new(Token(7), op::Ends::Other);
        for value in [
            Value::Nil,
            Value::Okay,
            bulk("RELEASED"),
            bulk("RELEASED dl1:c:8"),
            bulk("CANCELLED dl1:c:7"),
            Value::Array(vec![]),
            Value::Array(vec![bulk("RELEASED"), bulk("dl1:c:7")]),
            Value::Array(vec![bulk("FRESH"), bulk("dl1:c:7"), bulk("5")]),
        ] {
            assert!(of_release("c", &leave, &value).is_err(), "{value:?}");
        }
        assert!(of_set("c", Token(7), &Value::Okay).is_err());
    }

    #[test]
    fn a_look_reads_holders_and_waiters() {
        let members = ["b", "5000000", "a", "3000000", "gone", "1"].map(bulk).into();
        let queue = Value::Array(vec![bulk("dl1:w:1"), bulk("dl1:v:2")]);
        let look = |holder, left, waiters, members, queue| {
            let fields = vec![bulk(holder), Value::Int(left), Value::Int(waiters), members, queue];
            of_look(&Value::Array(fields)).unwrap().unwrap()
        };
        let found = look("dl1:s", 4_000, 2, Value::Array(members), queue);
        assert_eq!((found.kind, found.first_holder(), found.waiters), (LockKind::Shared, "b", 2));
        assert_eq!(found.waiting, ["dl1:w:1", "dl1:v:2"]);
        let left = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(found.holders, [("b".to_owned(), left(4)), ("a".to_owned(), left(2))]);
        // A key that the user may not read is empty.
        let nothing = || Value::Array(Vec::new());
        let found = look("dl1:p:2", 4_000, 0, nothing(), nothing());
        assert_eq!((found.kind, found.first_holder()), (LockKind::Limited { max_holders: 2 }, "dl1:p:2"));
        assert_eq!(look("x", -1, 0, nothing(), nothing()).remaining(), None);
        assert_eq!(of_look(&Value::Nil).unwrap(), None);
        assert!(of_look(&bulk("x")).is_err() && of_look(&nothing()).is_err());
    }

    #[test]
    fn a_record_that_is_no_text_or_never_ends_is_none() {
        let record = |value, left| of_record(&Value::Array(vec![value, Value::Int(left)])).unwrap();
        assert_eq!(record(bulk("x"), 5), Some(("x".to_owned(), Duration::from_millis(5))));
        assert_eq!(record(bulk("x"), -1), None);
        assert_eq!(record(Value::BulkString(vec![0xff]), 5), None);
        let names = Value::Array(vec![bulk("a"), Value::BulkString(vec![0xff]), bulk("b")]);
        let found = of_scan(&Value::Array(vec![bulk("17"), names])).unwrap();
        assert_eq!(found, ("17".to_owned(), vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn several_locks_are_answered_up_to_the_first_that_was_not_taken() {
        let ops = [7, 8, 9].map(|token| {
            let (ttl, kind) = (Duration::from_secs(1), LockKind::Exclusive);
            let mode = crate::backend::AcquireMode::Try;
            let op = op::Acquire { token: Token(token), kind, ttl, claim: ttl, mode, fences: 0 };
            (Arc::from("k"), op)
        });
        let fresh = |token: &str| Value::Array(vec![bulk("FRESH"), bulk(token), bulk("5")]);
        let busy = |token: &str| {
            let fields = vec![bulk("BUSY"), bulk(token), bulk("5"), bulk("x"), Value::Int(9), Value::Int(0)];
            Value::Array(fields)
        };
        let read = |values: Vec<Value>| of_enter_all("c", &ops, &Value::Array(values));
        let replies = read(vec![fresh("dl1:c:7"), busy("dl1:c:8")]).unwrap();
        assert!(matches!(
            &replies[..],
            [
                BatchReply::Tried(AcquireReply::Acquired { .. }),
                BatchReply::Tried(AcquireReply::Busy { .. }),
                BatchReply::Skipped
            ]
        ));
        let replies = read(vec![fresh("dl1:c:7"), fresh("dl1:c:8"), fresh("dl1:c:9")]).unwrap();
        assert!(replies.iter().all(|reply| reply.tried().is_some_and(AcquireReply::is_acquired)));
        for odd in [
            vec![],
            vec![fresh("dl1:c:7")],
            vec![fresh("dl1:c:8")],
            vec![busy("dl1:c:7"), fresh("dl1:c:8")],
            vec![fresh("dl1:c:7"), fresh("dl1:c:8"), fresh("dl1:c:9"), fresh("dl1:c:9")],
        ] {
            assert!(read(odd.clone()).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn a_key_without_expiry_is_told_from_one_about_to_expire() {
        let (kind, ttl) = (LockKind::Exclusive, Duration::from_secs(1));
        let mode = crate::backend::AcquireMode::Try;
        let op = op::Acquire { token: Token(7), kind, ttl, claim: ttl, mode, fences: 0 };
        let busy = |pttl| {
            let fields =
                vec![bulk("BUSY"), bulk("dl1:c:7"), bulk("5"), bulk("x"), Value::Int(pttl), Value::Int(0)];
            match of_acquire("c", &op, &Value::Array(fields)).unwrap() {
                AcquireReply::Busy { remaining, .. } => remaining,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(busy(-1), Remaining::Forever);
        assert_eq!(busy(-2), Remaining::For(Duration::ZERO));
        assert_eq!(busy(40), Remaining::For(Duration::from_millis(40)));
    }
}
