//! The reply of one server to an operation, as a vote.

use std::sync::Arc;

use super::super::{AcquireReply, CurrentHolder, OpResult, ReleaseReply, Remaining, RenewReply, StoreError};
use crate::protocol::mutated;

/// The reply of one server to an operation.
#[derive(Clone, Debug)]
pub(super) enum ServerReply {
    Open,
    /// The server has the lock for this process. `last` is the highest fencing token that the server knew before, if it
    /// was asked and has replied.
    Ours {
        fresh: bool,
        last: Option<u64>,
    },
    Busy {
        holder: CurrentHolder,
        remaining: Remaining,
        front: bool,
    },
    NotHeld,
    /// The token's place in the queue is gone.
    Cancelled,
    Released,
    Renewed,
    WrongKind(Arc<str>),
    Failed(StoreError),
}

/// The vote of a server that did not reply, or reported an error.
pub(super) fn failed(error: StoreError) -> ServerReply {
    if mutated!(ErrorsAreConsent) {
        return ServerReply::Ours { fresh: true, last: Some(0) };
    }
    ServerReply::Failed(error)
}

impl From<OpResult<AcquireReply>> for ServerReply {
    fn from(result: OpResult<AcquireReply>) -> Self {
        match result {
            Ok(AcquireReply::Acquired { .. }) => ServerReply::Ours { fresh: true, last: None },
            Ok(AcquireReply::AlreadyHeld { .. }) => ServerReply::Ours { fresh: false, last: None },
            Ok(AcquireReply::Busy { holder, remaining, front, .. }) => {
                ServerReply::Busy { holder, remaining, front }
            }
            Ok(AcquireReply::WrongKind { found }) => ServerReply::WrongKind(found),
            Ok(AcquireReply::NotHeld) => ServerReply::NotHeld,
            Err(error) => failed(error),
        }
    }
}

impl From<OpResult<ReleaseReply>> for ServerReply {
    fn from(result: OpResult<ReleaseReply>) -> Self {
        match result {
            Ok(ReleaseReply::Released { .. }) => ServerReply::Released,
            Ok(ReleaseReply::Cancelled) => ServerReply::Cancelled,
            Ok(ReleaseReply::NotHeld) => ServerReply::NotHeld,
            Err(error) => failed(error),
        }
    }
}

impl From<OpResult<RenewReply>> for ServerReply {
    fn from(result: OpResult<RenewReply>) -> Self {
        match result {
            Ok(RenewReply::Renewed { .. }) => ServerReply::Renewed,
            Ok(RenewReply::NotHeld) => ServerReply::NotHeld,
            Err(error) => failed(error),
        }
    }
}
