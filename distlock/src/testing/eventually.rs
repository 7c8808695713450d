//! Waits for a condition, with a bound, instead of a sleep.

use std::time::{Duration, Instant};

/// A bound that no working program reaches on a loaded machine: two minutes.
pub const BOUND: Duration = Duration::from_secs(120);

const PAUSE: Duration = Duration::from_millis(2);

/// Polls `condition` every 2 ms until it holds, and returns how long that took. Needs a tokio runtime with time.
///
/// ```
/// use distlock::testing::eventually;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// let manager = distlock::LockManager::in_memory();
/// let holder = manager.lock("order:42").acquire().await?;
/// let waiter = tokio::spawn(manager.lock("order:42").acquire());
/// eventually("the other request waits", async || {
///     let lock = manager.inspect("order:42").await.ok().flatten();
///     lock.is_some_and(|lock| lock.waiters_here == 1)
/// })
/// .await;
/// holder.release().await?;
/// # waiter.await.unwrap()?.release().await }
/// ```
///
/// # Panics
/// If it does not hold within [`BOUND`]. The message contains `what`.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        tokio::time::sleep(PAUSE).await;
    }
    start.elapsed()
}
