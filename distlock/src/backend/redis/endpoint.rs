//! Which server a connection is to lead to, and which it leads to.

use std::sync::Arc;

use super::command::Wire;
use super::config::{Address, RedisConfig};
use crate::backend::Notifications;

/// What the connections for commands and for pushes to one server have in common.
pub(super) trait Connects: Send + Sync {
    fn config(&self) -> &RedisConfig;
    fn wire(&self) -> &Arc<Wire>;
    /// What is to be connected, for messages.
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
    /// The server that runs our commands.
    pub(super) at: Option<Endpoint>,
    pub(super) subscribed: bool,
    /// The server that sends our pushes.
    pub(super) push_at: Option<Endpoint>,
    /// The command link was made again after the push connection, and it is not known whether both lead to
    /// the same server: the address may lead to another one by now.
    pub(super) push_is_older: bool,
}

impl EndpointState {
    /// Pushes count only if they come from the server that runs our commands, as far as this is known.
    pub(super) fn pushes(&self) -> Notifications {
        if self.subscribed && !self.split() { Notifications::On } else { Notifications::Off }
    }

    pub(super) fn split(&self) -> bool {
        self.push_is_older
            || matches!((&self.at, &self.push_at), (Some(at), Some(push_at)) if at.is_elsewhere(push_at))
    }
}
