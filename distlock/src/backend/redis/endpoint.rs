//! Which server a connection leads to.

use super::config::Address;

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
