//! Where the lock lives while the body runs.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::blocking::block_on;
pub use crate::section::OnLost;
use crate::section::{Holding, Section};
use crate::{FencingToken, Held, LockError, LockRequest};

/// Where the lock lives: declared before, and so dropped after, everything that the body may use.
#[derive(Debug, Default)]
pub struct Slot(Option<Holding>);

impl Slot {
    /// Holds nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Slot(None)
    }

    /// Acquires, and keeps the lock.
    ///
    /// # Errors
    /// Those of the request.
    pub async fn acquire(&mut self, request: LockRequest) -> Result<(), LockError> {
        let guard = request.acquire().await?;
        self.0 = Some(Holding::new(guard));
        Ok(())
    }

    /// The same on a thread.
    ///
    /// # Errors
    /// Those of the request.
    pub fn acquire_blocking(&mut self, request: LockRequest) -> Result<(), LockError> {
        block_on(self.acquire(request))
    }

    /// The lock, if it was acquired.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        self.0.as_ref().map(Holding::handle)
    }

    /// Releases and waits for it; a failure is reported, not returned.
    pub async fn release(&self) {
        if let Some(held) = self.held() {
            held.release_and_report().await;
        }
    }

    /// The same on a thread.
    pub fn release_blocking(&self) {
        block_on(self.release());
    }

    /// Releases; the error, if the lock had been lost.
    pub fn finish_blocking(&self) -> Option<LockError> {
        let held = self.held()?;
        block_on(held.release_shared()).err().filter(LockError::is_lost)
    }
}

/// Runs a body while the lease is watched, or just runs it. The body is pinned by the caller, so that its size
/// is paid for once.
pub fn hold<'a, F: Future>(held: Option<&'a Held>, on_lost: OnLost, body: Pin<&'a mut F>) -> Hold<'a, F> {
    Hold { section: held.map(|held| Section::new(held, on_lost)), body }
}

/// A body that runs; yields [`LockError::Lost`] if the lease ends before it does.
#[must_use = "futures do nothing unless polled"]
pub struct Hold<'a, F> {
    section: Option<Section<'a>>,
    body: Pin<&'a mut F>,
}

impl<F> fmt::Debug for Hold<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").finish_non_exhaustive()
    }
}

impl<F: Future> Future for Hold<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Hold { section, body } = self.get_mut();
        match section {
            Some(section) => section.poll_body(cx, body.as_mut()),
            None => body.as_mut().poll(cx).map(Ok),
        }
    }
}

/// Runs a body on this thread. Taking `FnOnce` lets it return what it was given by `&mut`.
pub fn hold_blocking<T>(held: Option<&Held>, body: impl FnOnce() -> T) -> T {
    match held {
        Some(held) => crate::section::hold_here(held, body),
        None => body(),
    }
}

/// `guard = name`. Not offered together with `when`, so there is a guard.
pub fn guard(held: Option<&Held>) -> &Held {
    match held {
        Some(held) => held,
        None => unreachable!("`guard` was accepted together with `when`"),
    }
}

/// `token = name`. The request was fenced, so there is a token.
pub fn token(held: Option<&Held>) -> FencingToken {
    match guard(held).fencing_token() {
        Some(token) => token,
        None => unreachable!("a fenced request was granted without a token"),
    }
}
