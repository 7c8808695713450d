//! What the engine wants done after an event, and what an event means for whoever caused it.

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

/// What a command was sent for; comes back with its result.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    Acquire {
        seq: u64,
        ttl: Duration,
        fences: u32,
        queueing: Queueing,
    },
    /// `deadline`: until when the lease was ours for certain, if it was. `until`: when nothing of it can be left.
    /// `keep_until`: the key is to stay taken until then.
    Release {
        sends: u32,
        deadline: Option<Time>,
        until: Time,
        keep_until: Option<Time>,
    },
    /// `ticket`: the holder who asked for it.
    Renew {
        ticket: Option<Ticket>,
        ttl: Duration,
    },
}

/// A command to send. `sent` is the instant before it is.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) sent: Time,
    pub(crate) purpose: Purpose,
}

/// What to do after an event. `W` stands for whoever made a request.
#[derive(Debug)]
pub(crate) enum Effect<W> {
    Send(Context, Op),
    /// One command for several keys; its results come back together.
    SendAcquireAll(Vec<(Context, Op)>),
    Done(W, Outcome),
    /// The hold has ended without a release: wake its listeners, tell the world.
    Lost(Arc<LeaseCell>, LostReason),
    Renewed(Arc<LeaseCell>),
    /// The store has said that somebody else holds the key, and this process stands in its queue or polls: tell the
    /// world. `waiting` requests wait here; the label is that of the first.
    Queued {
        key: Arc<str>,
        label: Cow<'static, str>,
        kind: Kind,
        waiting: usize,
    },
}

/// What the reply to a release or to an explicit extension means for whoever asked for it.
#[derive(Clone, Debug)]
pub(crate) enum Confirmation {
    /// Nobody asked.
    None,
    /// Done, or unconfirmed but harmless.
    Fine,
    /// The lock had been lost before.
    Lost(LostReason),
    /// Not answered; the release is pending, and sent again when the server can be reached.
    Failed(OpError),
}

/// What became of a hold that its holder let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Handed on in this process, nothing to wait for.
    HandedOn,
    /// A `leave` is among the effects; its reply is the confirmation.
    Sent,
    /// Lost before; a `leave` may be among the effects.
    WasLost(LostReason),
}

/// What is left to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outstanding {
    pub(crate) holds: usize,
    pub(crate) pending_releases: usize,
}
