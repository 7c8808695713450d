//! The state that a manager, its requests and the tasks that run under it share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::{Alive, Core};
use crate::release::Release;

/// The values of options that a request does not set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    /// How long the server may be unreachable before a request fails.
    pub(crate) unavailable_after: Duration,
    pub(crate) max_waiters: Option<u32>,
    pub(crate) release: Release,
    pub(crate) linger: Option<Duration>,
    pub(crate) warn_wait: Option<Duration>,
    pub(crate) warn_hold: Option<Duration>,
    pub(crate) break_deadlocks: bool,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            ttl: Duration::from_secs(30),
            wait: Duration::from_secs(10),
            unavailable_after: Duration::from_secs(3),
            max_waiters: None,
            release: Release::Confirmed,
            linger: None,
            warn_wait: None,
            warn_hold: None,
            break_deadlocks: false,
        }
    }
}

/// Keeps the manager's I/O thread running, and knows the defaults of its requests. It is the whole of a
/// [`LockManager`](crate::LockManager) without the ways to make one, so that requests and scopes can hold it. It is one
/// pointer, because the future of every annotated function has room for it.
#[derive(Clone)]
pub(crate) struct ManagerHandle(Arc<Shared>);

struct Shared {
    alive: Arc<Alive>,
    defaults: Defaults,
}

impl ManagerHandle {
    pub(crate) fn new(alive: Arc<Alive>, defaults: Defaults) -> Self {
        ManagerHandle(Arc::new(Shared { alive, defaults }))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.0.alive.core()
    }

    pub(crate) fn alive(&self) -> &Arc<Alive> {
        &self.0.alive
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.0.defaults
    }
}

/// Printed like the manager that it belongs to.
impl fmt::Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.core();
        f.debug_struct("LockManager")
            .field("server", &core.backend.describe())
            .field("client", &core.client)
            .finish_non_exhaustive()
    }
}
