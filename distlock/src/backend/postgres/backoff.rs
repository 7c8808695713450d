//! Pauses between attempts to connect.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const MOST: Duration = Duration::from_secs(1);

/// Doubling pauses with jitter, so that the clients of a server that comes back do not all come at once.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Backoff(FIRST)
    }
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let full = self.0;
        self.0 = (full * 2).min(MOST);
        full / 2 + (full / 2).mul_f64(fastrand::f64())
    }
}
