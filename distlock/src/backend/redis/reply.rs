//! Replies as values. Whatever has an unexpected shape or names another token is [`Garbled`]: on such a link
//! answers no longer belong to their questions.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::super::{Inspection, Op, Remaining, Reply, ServerTime, Token, kind_of, parse_token};

/// A reply that cannot be the answer to what was asked.
#[derive(Debug)]
pub(super) struct Garbled;

/// What a key of another type is reported as: the server's error does not name the type.
const OTHER_TYPE: &str = "a value that is not a string";

pub(super) fn wrong_type() -> Reply {
    Reply::WrongKind { found: Arc::from(OTHER_TYPE) }
}

/// The reply to `SET NX GET`.
pub(super) fn of_set(client: &str, token: Token, value: &Value) -> Result<Reply, Garbled> {
    match value {
        Value::Nil => Ok(Reply::Fresh { us: None, fence: None }),
        Value::BulkString(holder) => {
            let holder = String::from_utf8_lossy(holder);
            if parse_token(client, &holder) == Some(token) {
                return Ok(Reply::Mine { us: None, fence: None });
            }
            Ok(Reply::Busy {
                us: None,
                holder: Arc::from(holder),
                remaining: Remaining::Unknown,
                front: false,
            })
        }
        _ => Err(Garbled),
    }
}

/// The reply of the script that carries out `op`.
pub(super) fn of_script(client: &str, op: &Op, value: &Value) -> Result<Reply, Garbled> {
    if let (Op::Leave { token, .. }, Value::BulkString(_)) = (op, value) {
        let released = text(Some(value))?.strip_prefix("RELEASED ").ok_or(Garbled)?;
        let ours = parse_token(client, released) == Some(*token);
        return if ours { Ok(Reply::Released { gap: false }) } else { Err(Garbled) };
    }
    let Value::Array(fields) = value else { return Err(Garbled) };
    let status = text(fields.first())?;
    if parse_token(client, text(fields.get(1))?) != Some(op.token()) {
        return Err(Garbled);
    }
    let rest = fields.get(2..).unwrap_or_default();
    match (op, status) {
        (Op::Set { .. } | Op::Enter { .. }, "FRESH") => {
            let (us, fence) = won(rest)?;
            Ok(Reply::Fresh { us, fence })
        }
        (Op::Set { .. } | Op::Enter { .. }, "MINE") => {
            let (us, fence) = won(rest)?;
            Ok(Reply::Mine { us, fence })
        }
        (Op::Set { .. } | Op::Enter { .. }, "BUSY") => {
            let [us, Value::BulkString(holder), Value::Int(remaining), Value::Int(front)] = rest else {
                return Err(Garbled);
            };
            Ok(Reply::Busy {
                us: Some(server_time(us)?),
                holder: Arc::from(String::from_utf8_lossy(holder)),
                remaining: match *remaining {
                    -1 => Remaining::Forever,
                    // -2: it expired between two commands of the script.
                    millis => Remaining::For(Duration::from_millis(u64::try_from(millis).unwrap_or(0))),
                },
                front: *front == 1,
            })
        }
        (Op::Set { .. } | Op::Enter { .. }, "WRONGTYPE") => Ok(wrong_type()),
        (Op::Set { .. } | Op::Enter { .. }, "WRONGKIND") => match rest {
            [_, Value::BulkString(holder)] => {
                let kind = kind_of(&String::from_utf8_lossy(holder));
                Ok(Reply::WrongKind { found: kind.to_string().into() })
            }
            _ => Err(Garbled),
        },
        (Op::Leave { .. }, "RELEASED") => match rest {
            [Value::Int(gap)] => Ok(Reply::Released { gap: *gap == 1 }),
            _ => Err(Garbled),
        },
        (Op::Leave { .. }, "CANCELLED") => Ok(Reply::Cancelled),
        (Op::Leave { .. } | Op::Renew { .. } | Op::Fence { .. }, "NOT_YOURS") => Ok(Reply::NotYours),
        (Op::Fence { .. }, "FENCED") => match rest {
            [last] => Ok(Reply::Fenced { last: number(last)? }),
            _ => Err(Garbled),
        },
        (Op::Renew { .. }, "RENEWED") => match rest {
            [us] => Ok(Reply::Renewed { us: server_time(us)? }),
            _ => Err(Garbled),
        },
        _ => Err(Garbled),
    }
}

/// The reply of the scripts that take several locks: one for each, up to the first that was not taken.
pub(super) fn of_enter_all(
    client: &str,
    batch: &[(Arc<str>, Op)],
    value: &Value,
) -> Result<Vec<Reply>, Garbled> {
    let Value::Array(values) = value else { return Err(Garbled) };
    if values.is_empty() || values.len() > batch.len() {
        return Err(Garbled);
    }
    let mut replies = Vec::with_capacity(batch.len());
    for ((_, op), value) in batch.iter().zip(values) {
        replies.push(of_script(client, op, value)?);
    }
    // It ends at the first that was not taken, and nowhere else.
    let taken = replies.iter().take_while(|reply| reply.is_acquired()).count();
    if values.len() != batch.len().min(taken + 1) {
        return Err(Garbled);
    }
    replies.resize(batch.len(), Reply::NotReached);
    Ok(replies)
}

/// The reply of the `force` script: whether there was a lock.
pub(super) fn of_force(value: &Value) -> Result<bool, Garbled> {
    let Value::Array(fields) = value else { return Err(Garbled) };
    match text(fields.first())? {
        "FREE" => Ok(false),
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

/// The replies to GET, PTTL and LLEN.
pub(super) fn of_inspect(values: &[Value]) -> Result<Option<Inspection>, Garbled> {
    match values {
        [Value::Nil, ..] => Ok(None),
        [Value::BulkString(_), Value::Int(-2), _] => Ok(None),
        [Value::BulkString(holder), Value::Int(remaining), Value::Int(waiters)] => Ok(Some(Inspection {
            holder: Arc::from(String::from_utf8_lossy(holder)),
            remaining: u64::try_from(*remaining).ok().map(Duration::from_millis),
            waiters: u64::try_from(*waiters).unwrap_or(0),
        })),
        _ => Err(Garbled),
    }
}

fn won(rest: &[Value]) -> Result<(Option<ServerTime>, Option<u64>), Garbled> {
    match rest {
        [us] => Ok((Some(server_time(us)?), None)),
        [us, fence] => Ok((Some(server_time(us)?), Some(number(fence)?))),
        _ => Err(Garbled),
    }
}

fn server_time(value: &Value) -> Result<ServerTime, Garbled> {
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
    use super::super::super::Kind;
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_reply_that_names_another_token_is_garbled() {
        let op = Op::Renew { token: Token(7), kind: Kind::Exclusive, ttl: Duration::from_secs(1) };
        let reply = |token: &str| Value::Array(vec![bulk("RENEWED"), bulk(token), bulk("5")]);
        assert_eq!(of_script("c", &op, &reply("dl1:c:7")).unwrap(), Reply::Renewed { us: ServerTime(5) });
        assert!(of_script("c", &op, &reply("dl1:c:8")).is_err());
        assert!(of_script("d", &op, &reply("dl1:c:7")).is_err());
    }

    #[test]
    fn a_reply_of_another_shape_is_garbled() {
        let leave = Op::Leave { token: Token(7), hold: None, since: ServerTime(0) };
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
            assert!(of_script("c", &leave, &value).is_err(), "{value:?}");
        }
        assert!(of_set("c", Token(7), &Value::Okay).is_err());
    }

    #[test]
    fn several_locks_are_answered_up_to_the_first_that_was_not_taken() {
        let ops = [7, 8, 9].map(|token| {
            let (ttl, kind) = (Duration::from_secs(1), Kind::Exclusive);
            let mode = super::super::super::EnterMode::Try;
            let op = Op::Enter { token: Token(token), kind, ttl, claim: ttl, mode, fences: 0 };
            (Arc::from("k"), op)
        });
        let fresh = |token: &str| Value::Array(vec![bulk("FRESH"), bulk(token), bulk("5")]);
        let busy = |token: &str| {
            let fields = vec![bulk("BUSY"), bulk(token), bulk("5"), bulk("x"), Value::Int(9), Value::Int(0)];
            Value::Array(fields)
        };
        let read = |values: Vec<Value>| of_enter_all("c", &ops, &Value::Array(values));
        let replies = read(vec![fresh("dl1:c:7"), busy("dl1:c:8")]).unwrap();
        assert!(matches!(&replies[..], [Reply::Fresh { .. }, Reply::Busy { .. }, Reply::NotReached]));
        let replies = read(vec![fresh("dl1:c:7"), fresh("dl1:c:8"), fresh("dl1:c:9")]).unwrap();
        assert!(replies.iter().all(Reply::is_acquired));
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
        let op = Op::Set { token: Token(7), ttl: Duration::from_secs(1) };
        let busy = |pttl| {
            let fields =
                vec![bulk("BUSY"), bulk("dl1:c:7"), bulk("5"), bulk("x"), Value::Int(pttl), Value::Int(0)];
            match of_script("c", &op, &Value::Array(fields)).unwrap() {
                Reply::Busy { remaining, .. } => remaining,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(busy(-1), Remaining::Forever);
        assert_eq!(busy(-2), Remaining::For(Duration::ZERO));
        assert_eq!(busy(40), Remaining::For(Duration::from_millis(40)));
    }
}
