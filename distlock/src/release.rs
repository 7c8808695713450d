//! How a section releases, pending releases, and the meaning of a missing reply.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use crate::driver::{Failed, Released};
use crate::error::{LockError, LostReason};
use crate::key::LockKey;
use crate::lease_cell::LeaseCell;

/// Whether a section ([`run`](crate::LockRequest::run), or an annotated function) waits for the server's reply to
/// its release. See [`LockRequest::release`](crate::LockRequest::release).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::Release;
///
/// manager.lock("cart:7").release(Release::Background).run(async |_held| { /* the work */ }).await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("unlock", "async release"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Release {
    /// The section returns when the server has confirmed the release.
    #[default]
    Confirmed,
    /// The section returns as soon as the release is queued for sending.
    Background,
}

/// The release of one lock.
pub(crate) enum LockRelease {
    /// The outer section releases the lock.
    Nested(Result<(), LockError>),
    Own(Released),
}

impl LockRelease {
    fn now(&mut self) -> Option<Result<(), LockError>> {
        match self {
            LockRelease::Nested(result) => Some(result.clone()),
            LockRelease::Own(released) => {
                let result = released.now()?;
                Some(result.map_err(|failed| failure(released.cell(), failed, NOT_RELEASED)))
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        match self {
            LockRelease::Nested(result) => Poll::Ready(result.clone()),
            LockRelease::Own(released) => {
                let result = ready!(released.poll(cx));
                Poll::Ready(result.map_err(|failed| failure(released.cell(), failed, NOT_RELEASED)))
            }
        }
    }
}

/// The release of one or several locks. Ready with the first failure, once every reply has come. It is written by
/// hand so that it is compiled once, in this crate, and a single lock needs no list.
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Releases {
    first: Option<LockRelease>,
    others: vec::IntoIter<LockRelease>,
    result: Result<(), LockError>,
}

impl Releases {
    /// In this order.
    pub(crate) fn of(mut releasing: impl Iterator<Item = LockRelease>) -> Self {
        let first = releasing.next();
        Releases { first, others: releasing.collect::<Vec<_>>().into_iter(), result: Ok(()) }
    }

    /// Leaves the replies to the I/O thread, unless it waits for too many already: those are waited for here.
    pub(crate) fn leave_to_background(&mut self) {
        for releasing in self.first.iter_mut().chain(self.others.as_mut_slice()) {
            if let LockRelease::Own(released) = releasing {
                released.leave_to_background();
            }
        }
    }

    /// The result, if it is known by now.
    pub(crate) fn now(&mut self) -> Option<Result<(), LockError>> {
        while let Some(releasing) = &mut self.first {
            let result = releasing.now()?;
            self.next(result);
        }
        Some(self.result.clone())
    }

    fn next(&mut self, result: Result<(), LockError>) {
        if self.result.is_ok() {
            self.result = result;
        }
        self.first = self.others.next();
    }
}

impl Future for Releases {
    type Output = Result<(), LockError>;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(releasing) = &mut self.first {
            let result = ready!(releasing.poll(cx));
            self.next(result);
        }
        Poll::Ready(self.result.clone())
    }
}

const NOT_RELEASED: &str = "the release was not confirmed, and is repeated in the background; the lock ends \
                            with its lease at the latest";

/// `what` describes the state of the lock if the server's reply is missing.
pub(crate) fn failure(cell: &LeaseCell, failed: Failed, what: &'static str) -> LockError {
    match failed {
        Failed::Lost(reason) => lost_error(cell, reason),
        Failed::Unconfirmed(error) => {
            LockError::unconfirmed(LockKey::from_shared(cell.key.clone()), what, error.source)
        }
    }
}

pub(crate) fn lost_error(cell: &LeaseCell, reason: LostReason) -> LockError {
    LockError::Lost { key: LockKey::from_shared(cell.key.clone()), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Failure, LockKind, StoreError, Token};
    use crate::lease_cell::{HoldInfo, How, Ticket};
    use distlock_store::engine::Time;

    #[test]
    fn a_release_that_failed_is_not_called_harmless_and_keeps_the_servers_words() {
        let hold = HoldInfo {
            key: "k".into(),
            label: "l".into(),
            ticket: Ticket(1),
            token: Token(1),
            kind: LockKind::Exclusive,
            how: How::Free,
            fence: None,
            held_since: Time(0),
            collection: None,
            session: None,
        };
        let cell = LeaseCell::new(hold, Time::MAX, None);
        let refused =
            Failed::Unconfirmed(StoreError::new(Failure::Later, "NOREPLICAS Not enough good replicas"));
        let error = failure(&cell, refused, NOT_RELEASED);
        let text = error.to_string();
        assert!(text.contains("NOREPLICAS Not enough good replicas"), "{text}");
        assert!(text.contains("repeated in the background"), "{text}");
        assert!(!text.contains("nothing is known to be held"), "{text}");
    }
}
