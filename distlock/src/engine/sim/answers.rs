//! Commands to the store, and its replies, if there are any.

use std::fmt::Debug;
use std::mem::discriminant;

use crate::engine::{Answer, Command};
use crate::protocol::{Failure, OpResult, StoreError};

pub(super) fn failure(kind: Failure) -> StoreError {
    StoreError::new(kind, "simulated")
}

/// The answer to a command that fails.
pub(super) fn failed(command: &Command, kind: Failure) -> Answer {
    match command {
        Command::Acquire(asked, _) | Command::Replace(asked, _) => {
            Answer::Acquire(*asked, Err(failure(kind)))
        }
        Command::Release(asked, _) => Answer::Release(*asked, Err(failure(kind))),
        Command::Renew(asked, _) => Answer::Renew(*asked, Err(failure(kind))),
    }
}

/// The answer to another command, mistaken for the answer to this one.
pub(super) fn in_place_of(command: &Command, answer: Answer) -> Option<Answer> {
    match (command, answer) {
        (Command::Acquire(asked, _), Answer::Acquire(_, result)) => Some(Answer::Acquire(*asked, result)),
        (Command::Replace(asked, _), Answer::Acquire(_, result)) => Some(Answer::Acquire(*asked, result)),
        (Command::Release(asked, _), Answer::Release(_, result)) => Some(Answer::Release(*asked, result)),
        (Command::Renew(asked, _), Answer::Renew(_, result)) => Some(Answer::Renew(*asked, result)),
        _ => None,
    }
}

/// Whether the store has the same command for both.
pub(super) fn is_alike(one: &Command, other: &Command) -> bool {
    match (one, other) {
        (Command::Acquire(_, one), Command::Acquire(_, other)) => discriminant(one) == discriminant(other),
        (one, other) => discriminant(one) == discriminant(other),
    }
}

/// The operation of a command.
pub(super) fn op_of(command: &Command) -> &dyn Debug {
    match command {
        Command::Acquire(_, op) => op,
        Command::Replace(_, op) => op,
        Command::Release(_, op) => op,
        Command::Renew(_, op) => op,
    }
}

/// The store's reply, or why there is none.
pub(super) fn short(answer: &Answer) -> String {
    fn text(result: &OpResult<impl Debug>) -> String {
        match result {
            Ok(reply) => format!("{reply:?}"),
            Err(error) => format!("{:?}", error.kind),
        }
    }
    match answer {
        Answer::Acquire(_, result) => text(result),
        Answer::AcquireInBatch(_, result) => text(result),
        Answer::Release(_, result) => text(result),
        Answer::Renew(_, result) => text(result),
    }
}

/// The lock was acquired.
pub(super) fn is_acquired(answer: &Answer) -> bool {
    matches!(answer, Answer::Acquire(_, Ok(reply)) if reply.is_acquired())
}
