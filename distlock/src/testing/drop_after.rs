//! Dropping a future at a chosen await point.

use std::future::poll_fn;
use std::task::Poll;

/// Polls `future` at most `polls` times and drops it. Returns its output if it completed before that. A test that calls
/// this with 0, 1, 2 … drops the future at each place where it waits.
///
/// ```
/// use distlock::testing::drop_after;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// let manager = distlock::LockManager::in_memory();
/// let holder = manager.lock("order:42").acquire().await?;
/// for polls in 0..2 {
///     assert!(drop_after(polls, manager.lock("order:42").acquire()).await.is_none());
/// }
/// holder.release().await?;
/// // Nothing is left of the requests that were dropped.
/// assert!(manager.lock("order:42").try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
pub async fn drop_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
