//! The statements, and what the answers to them mean.

use std::time::Duration;

use crate::lock_kind::LockKind;
use crate::store::{AcquireReply, Busy, StoreError};

use super::schema::Schema;

/// The texts of the statements, which name the schema.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) acquire: String,
    pub(super) acquire_all: String,
    pub(super) renew: String,
    pub(super) release: String,
    pub(super) inspect: String,
    pub(super) force_release: String,
    pub(super) prune: String,
}

impl Statements {
    /// In each, `$1` is the time after which it is refused, and `$2`, where there is one, says how durable it is.
    pub(super) fn new(schema: &Schema) -> Self {
        let call = |text: &str| schema.fill(&format!("SELECT @.{text}"));
        Statements {
            acquire: call("acquire_1($3, $4, $5, $6, $7, $8, $9, $10, $1, $2)"),
            acquire_all: call("acquire_all_1($3, $4, $5, $6, $7, $8, $9, $1, $2)"),
            renew: call("renew_1($3, $4, $5, $1, $2)"),
            release: call("release_1($3, $4, $5, $1, $2)"),
            inspect: schema.fill("SELECT i.* FROM @.inspect_1($2) i WHERE clock_timestamp() < $1"),
            force_release: call("force_release_1($3, $1, $2)"),
            prune: call("prune_1($2) WHERE clock_timestamp() < $1"),
        }
    }
}

/// 0: exclusive; -1: shared; above: limited to so many.
pub(super) fn number_of(kind: LockKind) -> i32 {
    match kind {
        LockKind::Exclusive => 0,
        LockKind::Shared => -1,
        LockKind::Limited { max_holders } => i32::try_from(max_holders).unwrap_or(i32::MAX),
    }
}

pub(super) fn kind_of(number: i32) -> LockKind {
    match u32::try_from(number) {
        Ok(0) => LockKind::Exclusive,
        Ok(max_holders) => LockKind::Limited { max_holders },
        Err(_) => LockKind::Shared,
    }
}

pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Reads what acquire_1 says.
pub(super) fn acquired(said: &str) -> Result<AcquireReply, StoreError> {
    let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
    let reply = match word {
        "acquired" => rest.parse().ok().map(|first| AcquireReply::Acquired { fence: Some(first) }),
        "held" => rest.parse().ok().map(|first| AcquireReply::AlreadyHeld { fence: Some(first) }),
        "busy" => busy(rest).map(AcquireReply::Busy),
        "kind" => rest.parse().ok().map(|number| AcquireReply::WrongKind { found: kind_of(number) }),
        _ => None,
    };
    reply.ok_or_else(|| garbled(said))
}

fn busy(words: &str) -> Option<Busy> {
    let mut words = words.splitn(3, ' ');
    let remaining = Duration::from_micros(words.next()?.parse().ok()?);
    let front = words.next()? == "1";
    let busy = Busy::by(words.next()?).remaining(remaining);
    Some(if front { busy } else { busy.behind_others() })
}

pub(super) fn garbled(said: &str) -> StoreError {
    StoreError::unknown(format!("an answer that is not understood: {said:?}"))
}
