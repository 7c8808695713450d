//! The server that a connection should lead to, and the one that it leads to.

use std::sync::Arc;

use super::command::Wire;
use super::config::{Address, RedisConfig};
use crate::backend::Notifications;

/// The data that the connections for commands and for pushes to one server share.
pub(super) trait Connects: Send + Sync {
    fn config(&self) -> &RedisConfig;
    fn wire(&self) -> &Arc<Wire>;
    /// The name of the server in messages.
    fn place(&self) -> String;
    /// Returns once a connection is wanted.
    fn wanted(&self) -> impl Future<Output = ()> + Send;
}

/// Which server a connection leads to.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) address: Address,
    pub(super) run_id: Option<String>,
}

impl Endpoint {
    /// True if the two are known to be different servers.
    pub(super) fn is_elsewhere(&self, other: &Endpoint) -> bool {
        let known = self.run_id.is_some() && other.run_id.is_some();
        self.address != other.address || (known && self.run_id != other.run_id)
    }
}

/// Which servers the two connections lead to. Changed on the I/O thread only.
#[derive(Debug, Default)]
pub(super) struct EndpointState {
    pub(super) up: bool,
    /// The server that executes the commands.
    pub(super) at: Option<Endpoint>,
    pub(super) subscribed: bool,
    /// The server that sends the pushes.
    pub(super) push_at: Option<Endpoint>,
    /// The command link was replaced after the push connection was made. Whether both lead to the same server is
    /// unknown, because the address may lead to another one by now.
    pub(super) push_is_older: bool,
}

impl EndpointState {
    /// Pushes count only if they come from the server that executes the commands, as far as this is known.
    pub(super) fn pushes(&self) -> Notifications {
        if self.subscribed && !self.split() { Notifications::On } else { Notifications::Off }
    }

    pub(super) fn split(&self) -> bool {
        self.push_is_older
            || matches!((&self.at, &self.push_at), (Some(at), Some(push_at)) if at.is_elsewhere(push_at))
    }
}
