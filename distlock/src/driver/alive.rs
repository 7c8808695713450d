//! What keeps a manager's inner life going.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Core;

/// So long the last handle waits for commands under way: a release that was begun just before the end of
/// `main` would otherwise not leave the process.
const LAST_HANDLE_WAIT: Duration = Duration::from_millis(50);

/// Managers, requests and guards keep one; when the last is gone the I/O thread finishes what is under way
/// and ends.
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
        // On the I/O thread itself it would wait for nothing but its own end.
        if !self.core.io.is_this_thread() {
            self.core.answered_by(Instant::now() + LAST_HANDLE_WAIT);
        }
        self.core.io.stop();
    }
}
