//! What the engine wants done after an event, and what the event means for its caller.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::Outcome;
use crate::error::LostReason;
use crate::lease_cell::{LeaseCell, Ticket};
use crate::protocol::{Kind, Op, OpError, Time, Token};

/// Whether a command may leave an entry in the queue on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queueing {
    May,
    Never,
}

/// The purpose of a command. It comes back with the command's result.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    Acquire {
        seq: u64,
        ttl: Duration,
        fences: u32,
        queueing: Queueing,
    },
    /// `deadline`: until when the lease was certainly ours; `None` if it may never have been. `until`: when
    /// nothing of the lease can be left on the server. `keep_until`: the key stays taken until then
    /// (`min_hold`).
    Release {
        sends: u32,
        deadline: Option<Time>,
        until: Time,
        keep_until: Option<Time>,
    },
    /// `ticket`: the holder that asked for the renewal; `None` for a renewal by timer.
    Renew {
        ticket: Option<Ticket>,
        ttl: Duration,
    },
}

/// A command to send. `sent` is an instant before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) sent: Time,
    pub(crate) purpose: Purpose,
}

/// What to do after an event. `W` identifies the caller of a request.
#[derive(Debug)]
pub(crate) enum Effect<W> {
    Send(Context, Op),
    /// One command for several keys; its results come back together.
    SendAcquireAll(Vec<(Context, Op)>),
    Done(W, Outcome),
    /// A hold has ended without a release: wake its listeners and log the loss.
    Lost(Arc<LeaseCell>, LostReason),
    /// The lease goes on; when that was confirmed, `left` of it was left.
    Renewed {
        cell: Arc<LeaseCell>,
        left: Duration,
    },
    /// The store has said that somebody else holds the key, and this process stands in its queue or polls: tell the
    /// world. `waiting` requests wait here; the label is that of the first.
    Queued {
        key: Arc<str>,
        label: Cow<'static, str>,
        kind: Kind,
        waiting: usize,
    },
}

/// What the reply to a release or to an explicit extension means for its caller.
#[derive(Clone, Debug)]
pub(crate) enum Confirmation {
    /// No caller waits for the reply.
    None,
    /// Confirmed, or unconfirmed but harmless.
    Fine,
    /// The lock had been lost before the command.
    Lost(LostReason),
    /// No conclusive reply. The release is pending: it is sent again when the server can be reached.
    Failed(OpError),
}

/// What happened to a hold when its holder released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Handed on inside this process: no reply to wait for.
    HandedOn,
    /// A release command is among the effects. Its reply is the confirmation.
    Sent,
    /// The lock was lost before. A release command may be among the effects.
    WasLost(LostReason),
}

/// What still has to end before the manager is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outstanding {
    pub(crate) holds: usize,
    pub(crate) pending_releases: usize,
}
