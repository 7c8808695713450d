//! Futures that must not be dropped halfway.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use sqlx::{Database, Pool, Transaction};
use tokio::runtime::Handle;

/// A future that completes even if this is dropped. Then a task on the tokio runtime of its first poll continues with
/// it, and drops its output. Outside of such a runtime, the future is dropped.
pub(crate) struct Completed<T: 'static> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    runtime: Option<Handle>,
}

/// Begins a transaction on a connection of the pool. If this is dropped while it waits for the connection, it leaves
/// the pool's queue, and does not use a connection that a live caller waits for.
pub(crate) async fn begun<DB: Database>(
    pool: &Pool<DB>,
    begin: Option<&'static str>,
) -> Result<Transaction<'static, DB>, sqlx::Error> {
    let connection = pool.acquire().await?;
    completed(Transaction::begin(connection, begin.map(Into::into))).await
}

/// Begins a transaction. If `sqlx` 0.8 is dropped while it waits for the reply to BEGIN, the pool gets the connection
/// back with an open transaction, in which the next user of the connection would work.
pub(crate) async fn completed<T: 'static>(begin: impl Future<Output = T> + Send + 'static) -> T {
    Completed { future: Some(Box::pin(begin)), runtime: Handle::try_current().ok() }.await
}

impl<T> Future for Completed<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out, so no task continues with a future that has panicked.
        let Some(mut future) = self.future.take() else { return Poll::Pending };
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T> Drop for Completed<T> {
    fn drop(&mut self) {
        if let (Some(future), Some(runtime)) = (self.future.take(), &self.runtime) {
            drop(runtime.spawn(async move { drop(future.await) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use super::*;

    /// Begins a future that is ready, or panics, at its second poll. Polls it this often, and drops it. Returns the
    /// number of its polls.
    fn dropped_after(polls: usize, panics: bool) -> Arc<AtomicUsize> {
        let counter = Arc::new(AtomicUsize::new(0));
        let polled = Arc::clone(&counter);
        let future = poll_fn(move |context| {
            if polled.fetch_add(1, Ordering::SeqCst) == 0 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            assert!(!panics, "the future");
            Poll::Ready(())
        });
        let mut begun = pin!(completed(future));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            drop(catch_unwind(AssertUnwindSafe(|| begun.as_mut().poll(&mut context))));
        }
        counter
    }

    #[tokio::test]
    async fn a_future_that_is_dropped_completes() {
        let polls = dropped_after(1, false);
        while polls.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn outside_of_a_runtime_it_is_dropped() {
        assert_eq!(dropped_after(1, false).load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_future_that_was_not_polled_or_has_ended_is_not_continued() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (begun, panicked, ready) = runtime
            .block_on(async { (dropped_after(0, false), dropped_after(2, true), dropped_after(2, false)) });
        // A task that continues with one of them is polled here.
        runtime.block_on(tokio::task::yield_now());
        assert_eq!([begun, panicked, ready].map(|polls| polls.load(Ordering::SeqCst)), [0, 2, 2]);
        drop(runtime);
    }
}
