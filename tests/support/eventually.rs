//! Waiting for a condition, with a bound, instead of sleeping and hoping.

use std::time::{Duration, Instant};

/// Longer than anything that works can take on a loaded machine.
pub const BOUND: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(2);

/// Polls `condition` until it holds and returns how long that took.
///
/// # Panics
/// When it does not hold within [`BOUND`], naming `what`.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        tokio::time::sleep(PAUSE).await;
    }
    start.elapsed()
}

/// [`eventually`] for threads.
pub fn eventually_blocking(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        std::thread::sleep(PAUSE);
    }
    start.elapsed()
}
