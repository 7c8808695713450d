//! What keeps a manager's I/O thread running.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Core;

/// When the last handle is dropped, it waits this long for commands under way. Otherwise a release that was
/// started just before the end of `main` would not leave the process.
const LAST_HANDLE_WAIT: Duration = Duration::from_millis(50);

/// Managers, requests and guards each keep one. When the last is dropped, the I/O thread finishes what is
/// under way and ends.
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
        // Nobody comes back: what lingers is released.
        drop(self.core.event(|engine, now| engine.close(now)));
        // On the I/O thread this would wait for the thread itself.
        if !self.core.io.is_this_thread() {
            self.core.answered_by(Instant::now() + LAST_HANDLE_WAIT);
        }
        self.core.io.stop();
    }
}
