//! Why there is no reply, and whether the command may have been applied all the same.

use super::mutated;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why there is no reply.
#[derive(Clone, Debug)]
pub(crate) struct OpError {
    pub(crate) kind: Failure,
    pub(crate) source: Arc<dyn Error + Send + Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was no link: the command never left this process.
    NotSent,
    /// The link broke, no reply came, or the server or a proxy in front of it reported an error that we do
    /// not know: the command may have been applied, or may be applied later. Worth another try.
    Unknown,
    /// The server refused temporarily and did nothing (loading, busy with a script, cluster down, read-only
    /// until the master is found, out of memory, too few replicas, disk full). Worth another try while the
    /// request waits. A release is repeated until nothing of its lease can be left.
    Later,
    /// The server refused permanently (no permission, wrong password, unknown command, a key of another
    /// type). A script with several steps may have completed some of them.
    Refused,
}

impl OpError {
    pub(crate) fn new(kind: Failure, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        OpError { kind, source: Arc::from(source.into()) }
    }

    /// Whether the command, or a part of it, may have been applied or may be applied later.
    pub(crate) fn may_be_applied(&self) -> bool {
        match self.kind {
            Failure::Unknown => true,
            Failure::Refused => !mutated!(RefusalIsNothingDone),
            Failure::NotSent | Failure::Later => false,
        }
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
