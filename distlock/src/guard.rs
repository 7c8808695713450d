//! A lock in hand.

use std::future::{pending, poll_fn};
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock;
use crate::driver::{self, Failed, Grip};
use crate::engine::cell::{CellState, HoldCell};
use crate::error::{LockError, LostReason};
use crate::key::LockKey;
use crate::request::valid_ttl;
use crate::scope::{self, Add};
use crate::token::FencingToken;
use crate::trace;

/// A lock that is held, until it is released, dropped, or lost.
///
/// Dropping a guard is safe anywhere (without a runtime, on another thread, during a panic): the release goes
/// out in the background. [`release`](Guard::release) waits for it and reports.
///
/// A guard does not stop anything when its lease is lost: check it, await [`lost`](Guard::lost), or let
/// [`run`](crate::LockRequest::run) or the attribute hold it, which stop the body.
#[must_use = "a guard that is dropped at once protects nothing"]
#[derive(Debug)]
pub struct Guard {
    grip: Arc<Grip>,
    /// Entered again inside a section that holds the lock: the outer one releases.
    nested: bool,
}

impl Guard {
    pub(crate) fn new(grip: Grip) -> Self {
        Guard { grip: Arc::new(grip), nested: false }
    }

    pub(crate) fn nested_in(outer: &Held) -> Self {
        Guard { grip: outer.0.grip.clone(), nested: true }
    }

    fn cell(&self) -> &HoldCell {
        &self.grip.cell
    }

    pub(crate) fn manager_id(&self) -> u64 {
        self.grip.alive.core().id
    }

    /// The key, without the manager's prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.cell().key
    }

    /// The fencing token, if the request was [`fenced`](crate::LockRequest::fenced).
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.cell().fence.map(FencingToken::new)
    }

    /// For how long the lock is certainly held still, if nothing renews it; zero if it is not. No I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let now = clock::now();
        match self.cell().state(now) {
            CellState::Until(deadline) => deadline.since(now),
            CellState::Lost(_) | CellState::Released => Duration::ZERO,
        }
    }

    /// Whether the lock is certainly held at this moment. No I/O: the local deadline lies before the
    /// server's expiry. Once false, false for ever.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.cell().state(clock::now()), CellState::Until(_))
    }

    /// `Ok` if the lock is certainly held at this moment. No I/O.
    ///
    /// # Errors
    /// [`LockError::Lost`]; once lost, for ever.
    pub fn check(&self) -> Result<(), LockError> {
        match self.cell().state(clock::now()) {
            CellState::Until(_) => Ok(()),
            CellState::Lost(reason) => Err(self.lost_error(reason)),
            CellState::Released => Err(self.lost_error(LostReason::Expired)),
        }
    }

    /// Becomes ready when the lock is lost, with the error that says why; never, if it is released first.
    /// For tasks that the body spawns: the future borrows nothing.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub fn lost(&self) -> impl Future<Output = LockError> + Send + Sync + 'static {
        let cell = self.grip.cell.clone();
        async move {
            match until_ended(&cell).await {
                Some(reason) => lost_error(&cell, reason),
                None => pending().await,
            }
        }
    }

    /// Makes the lease end `ttl` from now, unless it ends later already. Later renewals use the longer of
    /// this and the request's ttl. Does not reach beyond `max_hold`.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock is not held any more, [`LockError::Unavailable`] if the server did not
    /// answer (the lock is still held until its deadline), [`LockError::InvalidOptions`] if `ttl` is below
    /// 10 ms or above 365 days.
    ///
    /// # Cancel safety
    /// Cancel-safe: once polled, the extension takes place anyway.
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        let ttl = valid_ttl(ttl)?;
        driver::extend(&self.grip, ttl).await.map_err(|failed| self.failed(failed))
    }

    /// Gives the lock back and waits for the server's word.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock had been lost before: what was done may have overlapped with another
    /// holder. [`LockError::Unavailable`] if the server did not answer: the release is repeated in the
    /// background, and the lease ends by itself.
    ///
    /// # Cancel safety
    /// Cancel-safe: dropping the future releases in the background.
    pub async fn release(self) -> Result<(), LockError> {
        self.release_shared().await
    }

    pub(crate) async fn release_shared(&self) -> Result<(), LockError> {
        if self.nested {
            return self.check();
        }
        let held = clock::now().since(self.cell().since);
        let result = driver::release(&self.grip).await.map_err(|failed| self.failed(failed));
        match &result {
            Ok(()) => trace::released(self.cell(), held),
            Err(error) => trace::release_failed(self.cell(), error),
        }
        result
    }

    /// The end of a section: whatever becomes of the release, it does not take the place of the body's
    /// result. It is traced.
    pub(crate) async fn settle(&self) {
        drop(self.release_shared().await);
    }

    pub(crate) fn trace_acquired(&self, waited: Duration) {
        trace::acquired(self.cell(), waited);
    }

    fn failed(&self, failed: Failed) -> LockError {
        match failed {
            Failed::Lost(reason) => self.lost_error(reason),
            Failed::Unconfirmed(error) => {
                LockError::Unavailable { key: self.lock_key(), source: error.source }
            }
        }
    }

    fn lock_key(&self) -> LockKey {
        LockKey::from_shared(self.cell().key.clone())
    }

    fn lost_error(&self, reason: LostReason) -> LockError {
        lost_error(self.cell(), reason)
    }
}

/// A handle to a lock that somebody else releases: what [`run`](crate::LockRequest::run) and the attribute
/// give to the body. Dereferences to [`Guard`]; cheap to clone and `'static`, for spawned children.
#[derive(Clone, Debug)]
pub struct Held(Arc<Guard>);

impl Held {
    pub(crate) fn new(guard: Guard) -> Self {
        Held(Arc::new(guard))
    }
}

impl Deref for Held {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// What a loss does to the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLost {
    /// It is dropped at its next await point.
    Cancel,
    /// It goes on.
    Continue,
}

/// Runs `body` inside the section of `held`.
///
/// # Errors
/// [`LockError::Lost`] if the lock was lost and the body has been dropped for it. A body that completes
/// keeps its value.
pub(crate) async fn hold<F: Future>(held: &Held, on_lost: OnLost, body: F) -> Result<F::Output, LockError> {
    let cell = held.grip.cell.clone();
    let body = scope::scoped(Add::Held(held.clone()), body);
    let body = trace::holding(&cell, body);
    if on_lost == OnLost::Continue {
        return Ok(body.await);
    }
    let mut body = pin!(body);
    let mut ended = pin!(until_ended(&cell));
    poll_fn(|cx| {
        // The clock, not only a flag, and before the body: after a suspend nothing more is done.
        if let CellState::Lost(reason) = cell.state(clock::now()) {
            return Poll::Ready(Err(lost_error(&cell, reason)));
        }
        if let Poll::Ready(Some(reason)) = ended.as_mut().poll(cx) {
            return Poll::Ready(Err(lost_error(&cell, reason)));
        }
        body.as_mut().poll(cx).map(Ok)
    })
    .await
}

/// Waits for the end of a hold: `Some` says why it was lost, `None` that it was released.
async fn until_ended(cell: &HoldCell) -> Option<LostReason> {
    loop {
        let ended = cell.listen();
        match cell.state(clock::now()) {
            CellState::Lost(reason) => return Some(reason),
            CellState::Released => return None,
            CellState::Until(_) => ended.await,
        }
    }
}

fn lost_error(cell: &HoldCell, reason: LostReason) -> LockError {
    LockError::Lost { key: LockKey::from_shared(cell.key.clone()), reason }
}
