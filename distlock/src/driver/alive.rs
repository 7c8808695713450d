//! Keeps a manager's I/O thread running.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Core;

/// How long the drop of the last handle waits for commands in flight. Otherwise the process could end before it sends a
/// release that was started just before the end of `main`.
const LAST_HANDLE_WAIT: Duration = Duration::from_millis(50);

/// Each manager, request and guard has one. When the last one is dropped, the I/O thread finishes its pending work and
/// ends.
#[derive(Debug)]
pub(crate) struct Alive {
    core: Arc<Core>,
}

impl Alive {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Alive { core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        if self.core.is_forked() {
            return;
        }
        // No request can follow, so lingering leases are released.
        drop(self.core.event(|engine, now| engine.close(now)));
        // On the I/O thread, this would wait for the thread itself.
        if !self.core.io.is_this_thread() {
            self.core.answered_by(Instant::now() + LAST_HANDLE_WAIT);
        }
        self.core.io.stop();
    }
}
