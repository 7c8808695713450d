//! The operations of this store. Each one is written as a command, and reads the reply to it.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::command::{ScriptRef, Wire};
use super::reply::{self, Garbled};
use crate::backend::{AcquireReply, FenceReply, LockKind, ReleaseReply, RenewReply, StoredLock, op};

/// How an operation was encoded as a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// A plain command.
    Native,
    /// A call of a shorter script, which does the same as the script, or nothing.
    Short,
    Script,
}

/// How a command is sent again that the server has certainly not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The shorter script, with its text.
    Short,
    Script(ScriptRef),
}

/// An operation as a command.
pub(crate) trait Encode: Send + Sync {
    /// A plain command that does the same, on servers that know it.
    fn native(&self, _wire: &Wire, _key: &str) -> Option<Cmd> {
        None
    }

    /// A call of a shorter script, which does the same or replies with nil, whatever the server's name.
    fn short(&self, _wire: &Wire, _script_ref: ScriptRef, _key: &str) -> Option<Cmd> {
        None
    }

    /// A call of its script. `from`: how the server is named in the grants that it pushes.
    fn script(&self, wire: &Wire, script_ref: ScriptRef, key: &str, from: Option<&str>) -> Cmd;

    /// If its script also writes the keys of the queue: the kind of lock that they are for.
    fn queues_for(&self) -> Option<LockKind> {
        None
    }
}

/// An operation, and its possible replies.
pub(crate) trait Operation: Send + Sync + 'static {
    type Reply: Send;

    fn encoder(&self) -> &dyn Encode;

    /// Reads the reply to the command. An error reply is passed in only if the encoding is
    /// [`Encoding::Native`], and its code is `WRONGTYPE`.
    fn read(&self, client: &str, encoding: Encoding, value: &Value) -> Result<Self::Reply, Garbled>;

    /// Whether the caller relies on a lease after this reply, so that replicas must have it.
    fn promises_lease(_reply: &Self::Reply) -> bool {
        false
    }
}

impl Encode for op::Ask {
    fn native(&self, wire: &Wire, key: &str) -> Option<Cmd> {
        match self {
            op::Ask::Plain(op) => Some(wire.set(key, op)),
            op::Ask::Full(_) => None,
        }
    }

    fn script(&self, wire: &Wire, script_ref: ScriptRef, key: &str, _from: Option<&str>) -> Cmd {
        wire.enter(script_ref, key, &full(self))
    }

    fn queues_for(&self) -> Option<LockKind> {
        match self {
            op::Ask::Plain(_) => None,
            op::Ask::Full(op) => Some(op.kind),
        }
    }
}

/// The same as an acquisition that does not queue, where the script takes the place of the plain command.
fn full(ask: &op::Ask) -> op::Acquire {
    match *ask {
        op::Ask::Plain(op::TryAcquire { token, ttl }) => {
            let (kind, mode) = (LockKind::Exclusive, crate::backend::AcquireMode::Try);
            op::Acquire { token, kind, ttl, claim: ttl, mode, fences: 0 }
        }
        op::Ask::Full(op) => op,
    }
}

impl Operation for op::Ask {
    type Reply = AcquireReply;

    fn encoder(&self) -> &dyn Encode {
        self
    }

    fn read(&self, client: &str, encoding: Encoding, value: &Value) -> Result<AcquireReply, Garbled> {
        match encoding {
            Encoding::Native => reply::of_set(client, self.token(), value),
            Encoding::Short | Encoding::Script => reply::of_acquire(client, &full(self), value),
        }
    }

    fn promises_lease(reply: &AcquireReply) -> bool {
        reply.is_acquired()
    }
}

impl Encode for op::Release {
    fn short(&self, wire: &Wire, script_ref: ScriptRef, key: &str) -> Option<Cmd> {
        // A lock that was handed on has a queue.
        let may_be_alone = self.ends == op::Ends::ExclusiveLease && self.handoffs_began.is_none();
        let leaves_nothing = self.keep_taken_for.is_none();
        (may_be_alone && leaves_nothing).then(|| wire.leave_alone(script_ref, key, self.token))
    }

    fn script(&self, wire: &Wire, script_ref: ScriptRef, key: &str, from: Option<&str>) -> Cmd {
        wire.leave(script_ref, key, self, from)
    }
}

impl Operation for op::Release {
    type Reply = ReleaseReply;

    fn encoder(&self) -> &dyn Encode {
        self
    }

    fn read(&self, client: &str, _encoding: Encoding, value: &Value) -> Result<ReleaseReply, Garbled> {
        reply::of_release(client, self, value)
    }
}

impl Encode for op::Replace {
    fn script(&self, wire: &Wire, script_ref: ScriptRef, key: &str, _from: Option<&str>) -> Cmd {
        wire.replace(script_ref, key, self)
    }
}

impl Operation for op::Replace {
    type Reply = AcquireReply;

    fn encoder(&self) -> &dyn Encode {
        self
    }

    fn read(&self, client: &str, _encoding: Encoding, value: &Value) -> Result<AcquireReply, Garbled> {
        reply::of_replace(client, self, value)
    }

    fn promises_lease(reply: &AcquireReply) -> bool {
        reply.is_acquired()
    }
}

impl Encode for op::Renew {
    fn script(&self, wire: &Wire, script_ref: ScriptRef, key: &str, _from: Option<&str>) -> Cmd {
        wire.renew(script_ref, key, self)
    }
}

impl Operation for op::Renew {
    type Reply = RenewReply;

    fn encoder(&self) -> &dyn Encode {
        self
    }

    fn read(&self, client: &str, _encoding: Encoding, value: &Value) -> Result<RenewReply, Garbled> {
        reply::of_renew(client, self, value)
    }

    fn promises_lease(reply: &RenewReply) -> bool {
        matches!(reply, RenewReply::Renewed { .. })
    }
}

impl Encode for op::Fence {
    fn script(&self, wire: &Wire, script_ref: ScriptRef, key: &str, _from: Option<&str>) -> Cmd {
        wire.fence(script_ref, key, self)
    }
}

impl Operation for op::Fence {
    type Reply = FenceReply;

    fn encoder(&self) -> &dyn Encode {
        self
    }

    fn read(&self, client: &str, _encoding: Encoding, value: &Value) -> Result<FenceReply, Garbled> {
        reply::of_fence(client, self, value)
    }
}

/// Reads who holds a lock and who waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inspect;

impl Encode for Inspect {
    fn script(&self, wire: &Wire, script_ref: ScriptRef, key: &str, _from: Option<&str>) -> Cmd {
        wire.look(script_ref, key)
    }
}

impl Operation for Inspect {
    type Reply = Option<StoredLock>;

    fn encoder(&self) -> &dyn Encode {
        self
    }

    fn read(&self, _client: &str, _encoding: Encoding, value: &Value) -> Result<Self::Reply, Garbled> {
        reply::of_look(value)
    }
}

/// Reads a record.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    /// The key names it.
    Itself,
    /// The record of the lease with this token.
    Beside(Arc<str>),
}

impl Read {
    pub(super) fn token(&self) -> Option<Arc<str>> {
        match self {
            Read::Itself => None,
            Read::Beside(token) => Some(token.clone()),
        }
    }
}

impl Encode for Read {
    fn script(&self, wire: &Wire, script_ref: ScriptRef, key: &str, _from: Option<&str>) -> Cmd {
        wire.read(script_ref, key, self.token().as_deref())
    }
}

impl Operation for Read {
    /// The text, and how much longer it lives.
    type Reply = Option<(String, Duration)>;

    fn encoder(&self) -> &dyn Encode {
        self
    }

    fn read(&self, _client: &str, _encoding: Encoding, value: &Value) -> Result<Self::Reply, Garbled> {
        reply::of_record(value)
    }
}
