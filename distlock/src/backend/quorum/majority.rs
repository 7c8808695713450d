//! The combined replies of the servers to a look at locks.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use super::super::{BoxFuture, Failure, OwnerDetails, StoreError, StoredLock};

/// The replies, if they are those of a majority.
pub(super) async fn of_a_majority<T>(
    asked: Vec<BoxFuture<Result<T, StoreError>>>,
    most: usize,
) -> Result<Vec<T>, StoreError> {
    let (found, error) = gathered(asked).await;
    match error {
        Some(error) if found.len() < most => Err(error),
        _ => Ok(found),
    }
}

/// The state of one lock on a majority. `None`: no majority agrees on a holder.
pub(super) fn agreed(found: Vec<StoredLock>, most: usize) -> Option<StoredLock> {
    let waiters = found.iter().map(|one| one.waiters).max().unwrap_or(0);
    // The waiters are in the queue of one server, except for a short time after that server was lost.
    let waiting = found.iter().map(|one| &one.waiting).max_by_key(|waiting| waiting.len());
    let waiting = waiting.cloned().unwrap_or_default();
    // Every process writes to every server that it reaches, so the record of one server is enough.
    let details =
        found.iter().flat_map(|one| &one.details).filter(|(_, details)| *details != OwnerDetails::default());
    let details = details.cloned().collect();
    let silent = found.first().map(|one| one.silent.clone()).unwrap_or_default();
    let silent =
        silent.into_iter().filter(|client| found.iter().all(|one| one.silent.contains(client))).collect();
    let same = |one: &StoredLock| {
        let holder = one.first_holder().to_owned();
        found.iter().filter(move |other| other.first_holder() == holder)
    };
    let one = found.iter().find(|one| same(one).count() >= most)?;
    // The key becomes free when it is free on a majority.
    let mut lasts: Vec<_> = same(one).map(StoredLock::remaining).collect();
    lasts.sort_unstable_by_key(|remaining| remaining.unwrap_or(Duration::MAX));
    let remaining = lasts.get(lasts.len() - most).copied().flatten();
    let lock = StoredLock::new(one.kind).holder(one.first_holder(), remaining);
    Some(StoredLock { waiters, waiting, details, silent, ..lock })
}

/// The replies to a forced release, and one of the errors: an unknown outcome if a server has released the lock.
pub(super) async fn released(
    asked: Vec<BoxFuture<Result<bool, StoreError>>>,
) -> (Vec<bool>, Option<StoreError>) {
    let (found, mut error) = gathered(asked).await;
    if let Some(error) = error.as_mut().filter(|_| found.contains(&true)) {
        error.kind = Failure::Unknown;
    }
    (found, error)
}

/// All replies, and one of the errors: of a command that was sent, if there is one.
pub(super) async fn gathered<T>(
    mut asked: Vec<BoxFuture<Result<T, StoreError>>>,
) -> (Vec<T>, Option<StoreError>) {
    let (mut found, mut failed) = (Vec::new(), None);
    poll_fn(|cx| {
        asked.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(one)) => {
                found.push(one);
                false
            }
            Poll::Ready(Err(error)) => {
                if failed.as_ref().is_none_or(|failed: &StoreError| failed.kind == Failure::NotSent) {
                    failed = Some(error);
                }
                false
            }
        });
        if asked.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (found, failed)
}
