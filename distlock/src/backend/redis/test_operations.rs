//! Operations of any kind, for tests that send them through one function or mix them.

use std::sync::Arc;

use redis::Value;

use super::{Encode, Encoding, Garbled, Operation, RedisBackend};
use crate::backend::{
    AcquireReply, Backend, BoxFuture, FenceReply, OpResult, ReleaseReply, RenewReply, Sending, op,
};

/// An operation for a store of type `B`.
pub(super) trait SendTo<B> {
    type Reply: Send + 'static;

    fn send_to(self, backend: &B, key: &Arc<str>) -> Sending<Self::Reply>;
}

impl<B: Backend, O: Into<op::Ask>> SendTo<B> for O {
    type Reply = AcquireReply;

    fn send_to(self, backend: &B, key: &Arc<str>) -> Sending<AcquireReply> {
        backend.send_acquire(key, self.into())
    }
}

impl<B: Backend> SendTo<B> for op::Release {
    type Reply = ReleaseReply;

    fn send_to(self, backend: &B, key: &Arc<str>) -> Sending<ReleaseReply> {
        backend.send_release(key, self)
    }
}

impl<B: Backend> SendTo<B> for op::Replace {
    type Reply = AcquireReply;

    fn send_to(self, backend: &B, key: &Arc<str>) -> Sending<AcquireReply> {
        backend.send_replace(key, self)
    }
}

impl<B: Backend> SendTo<B> for op::Renew {
    type Reply = RenewReply;

    fn send_to(self, backend: &B, key: &Arc<str>) -> Sending<RenewReply> {
        backend.send_renew(key, self)
    }
}

impl SendTo<RedisBackend> for op::Fence {
    type Reply = FenceReply;

    fn send_to(self, backend: &RedisBackend, key: &Arc<str>) -> Sending<FenceReply> {
        backend.send(key, self)
    }
}

/// Any operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnyOp {
    Ask(op::Ask),
    Release(op::Release),
    Renew(op::Renew),
    Fence(op::Fence),
}

/// The reply to any operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnyReply {
    Acquire(AcquireReply),
    Release(ReleaseReply),
    Renew(RenewReply),
    Fence(FenceReply),
}

impl<O: Into<op::Ask>> From<O> for AnyOp {
    fn from(op: O) -> Self {
        AnyOp::Ask(op.into())
    }
}

impl From<op::Release> for AnyOp {
    fn from(op: op::Release) -> Self {
        AnyOp::Release(op)
    }
}

impl From<op::Renew> for AnyOp {
    fn from(op: op::Renew) -> Self {
        AnyOp::Renew(op)
    }
}

impl Operation for AnyOp {
    type Reply = AnyReply;

    fn encoder(&self) -> &dyn Encode {
        match self {
            AnyOp::Ask(op) => op,
            AnyOp::Release(op) => op,
            AnyOp::Renew(op) => op,
            AnyOp::Fence(op) => op,
        }
    }

    fn read(&self, client: &str, encoding: Encoding, value: &Value) -> Result<AnyReply, Garbled> {
        Ok(match self {
            AnyOp::Ask(op) => AnyReply::Acquire(op.read(client, encoding, value)?),
            AnyOp::Release(op) => AnyReply::Release(op.read(client, encoding, value)?),
            AnyOp::Renew(op) => AnyReply::Renew(op.read(client, encoding, value)?),
            AnyOp::Fence(op) => AnyReply::Fence(op.read(client, encoding, value)?),
        })
    }
}

impl SendTo<RedisBackend> for AnyOp {
    type Reply = AnyReply;

    fn send_to(self, backend: &RedisBackend, key: &Arc<str>) -> Sending<AnyReply> {
        match self {
            AnyOp::Ask(op) => any(op.send_to(backend, key), AnyReply::Acquire),
            AnyOp::Release(op) => any(op.send_to(backend, key), AnyReply::Release),
            AnyOp::Renew(op) => any(op.send_to(backend, key), AnyReply::Renew),
            AnyOp::Fence(op) => any(op.send_to(backend, key), AnyReply::Fence),
        }
    }
}

fn any<T: 'static>(sending: Sending<T>, reply: fn(T) -> AnyReply) -> Sending<AnyReply> {
    match sending {
        Sending::Ready(result) => Sending::Ready(result.map(reply)),
        Sending::Pending(future) => {
            let any: BoxFuture<OpResult<AnyReply>> = Box::pin(async move { future.await.map(reply) });
            Sending::Pending(any)
        }
    }
}
