//! Which server a connection is to lead to, and which it leads to.

use std::sync::Arc;

use super::command::Wire;
use super::config::{Address, RedisConfig};

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
