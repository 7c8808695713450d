//! A lock in hand.

use std::error::Error;
use std::fmt;
use std::future::{pending, poll_fn};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use event_listener::EventListener;

use crate::clock::{self, Time};
use crate::driver::{self, Failed, Grip, Released};
use crate::engine::Want;
use crate::engine::cell::{CellState, HoldCell};
use crate::error::{LockError, LostReason};
use crate::key::LockKey;
use crate::request::valid_ttl;
use crate::scope::{self, Add};
use crate::token::FencingToken;
use crate::trace;

/// One lock in hand.
#[derive(Debug)]
struct Part {
    grip: Arc<Grip>,
    /// Entered again inside a section that holds it: the outer one releases.
    nested: bool,
}

/// A lock that is held, until it is released, dropped, or lost; or several of them
/// ([`lock_all`](crate::LockManager::lock_all)), which are held as long as each of them is.
///
/// Dropping a guard is safe anywhere (without a runtime, on another thread, during a panic): the release goes
/// out in the background. [`release`](Guard::release) waits for it and reports.
///
/// A guard does not stop anything when its lease is lost: check it, await [`lost`](Guard::lost), or let
/// [`run`](crate::LockRequest::run) or the attribute hold it, which stop the body.
#[must_use = "a guard that is dropped at once protects nothing"]
#[derive(Debug)]
pub struct Guard {
    rest: Rest,
    /// Acquired before those. It stands behind them because fields are dropped from the first on.
    first: Part,
}

/// The locks behind the first, in the order of acquisition. Let go from the last on.
#[derive(Debug, Default)]
struct Rest(Vec<Part>);

impl Drop for Rest {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl Guard {
    pub(crate) fn new(grip: Grip) -> Self {
        Guard { rest: Rest::default(), first: Part { grip: Arc::new(grip), nested: false } }
    }

    /// Enters `key` again inside the section of `outer`, which holds it.
    pub(crate) fn nested_in(outer: &Held, key: &str) -> Option<Self> {
        let part = outer.parts().find(|part| &*part.grip.cell.key == key)?;
        Some(Guard { rest: Rest::default(), first: Part { grip: part.grip.clone(), nested: true } })
    }

    /// All of the locks are in hand: what `want` says of time counts from now on.
    pub(crate) fn begin(&self, want: &Want) {
        for part in self.parts().filter(|part| !part.nested) {
            driver::begin(&part.grip, want);
        }
    }

    /// `Ok` if no outer section has lost one of the locks that were entered again.
    pub(crate) fn check_nested(&self) -> Result<(), LockError> {
        let now = clock::now();
        self.parts().filter(|part| part.nested).try_for_each(|part| check(&part.grip.cell, now))
    }

    /// Takes in the locks of another guard, acquired after these.
    pub(crate) fn join(&mut self, mut other: Guard) {
        let behind = std::mem::take(&mut other.rest.0);
        self.rest.0.push(other.first);
        self.rest.0.extend(behind);
    }

    fn parts(&self) -> impl DoubleEndedIterator<Item = &Part> {
        std::iter::once(&self.first).chain(&self.rest.0)
    }

    fn cells(&self) -> impl Iterator<Item = &HoldCell> {
        self.parts().map(|part| &*part.grip.cell)
    }

    /// The first of the locks.
    fn cell(&self) -> &HoldCell {
        &self.first.grip.cell
    }

    /// Whether `key` of that manager is held by this guard now.
    pub(crate) fn covers(&self, manager: Option<u64>, key: &str) -> bool {
        let is_it = |part: &Part| {
            manager.is_none_or(|id| part.grip.alive.core().id == id) && &*part.grip.cell.key == key
        };
        self.parts().any(|part| is_it(part) && is_held(&part.grip.cell))
    }

    /// The key, without the manager's prefix; of several, the first in order.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.cell().key
    }

    /// All keys, without the manager's prefix, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.cells().map(|cell| &*cell.key)
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
        let remaining = |cell: &HoldCell| match cell.state(now) {
            CellState::Until(deadline) => deadline.since(now),
            CellState::Lost(_) | CellState::Released => Duration::ZERO,
        };
        self.cells().map(remaining).min().unwrap_or_default()
    }

    /// Whether the lock is certainly held at this moment. No I/O: the local deadline lies before the
    /// server's expiry. Once false, false for ever.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.cells().all(is_held)
    }

    /// `Ok` if the lock is certainly held at this moment. No I/O.
    ///
    /// # Errors
    /// [`LockError::Lost`]; once lost, for ever.
    pub fn check(&self) -> Result<(), LockError> {
        let now = clock::now();
        self.cells().try_for_each(|cell| check(cell, now))
    }

    /// Becomes ready when the lock is lost, with the error that says why; never, if it is released first.
    /// For tasks that the body spawns: the future borrows nothing.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub fn lost(&self) -> impl Future<Output = LockError> + Send + Sync + 'static {
        let ended = Ended::of(self);
        async move {
            match ended.wait().await {
                Some(error) => error,
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
        let begun: Vec<_> =
            self.parts().map(|Part { grip, .. }| (&grip.cell, driver::extend(grip, ttl))).collect();
        let mut result = Ok(());
        for (cell, extending) in begun {
            let extended = extending.confirmed().await;
            result = result.and(extended.map_err(|failed| failure(cell, failed, NOT_EXTENDED)));
        }
        result
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

    /// In reverse order, without waiting for one before the next is on its way; reports the first failure.
    pub(crate) async fn release_shared(&self) -> Result<(), LockError> {
        if self.rest.0.is_empty() {
            return self.first.release().confirmed().await;
        }
        // Boxed because it is rare: it would add to the size of every section.
        Box::pin(self.release_all()).await
    }

    async fn release_all(&self) -> Result<(), LockError> {
        let begun: Vec<Releasing<'_>> = self.parts().rev().map(Part::release).collect();
        let mut result = Ok(());
        for releasing in begun {
            result = result.and(releasing.confirmed().await);
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
}

/// A release under way.
enum Releasing<'a> {
    /// The outer section releases.
    Nested(Result<(), LockError>),
    Own {
        cell: &'a HoldCell,
        held: Duration,
        released: Released,
    },
}

impl Part {
    fn release(&self) -> Releasing<'_> {
        let (cell, now) = (&*self.grip.cell, clock::now());
        if self.nested {
            return Releasing::Nested(check(cell, now));
        }
        Releasing::Own { cell, held: now.since(cell.since), released: driver::release(&self.grip) }
    }
}

impl Releasing<'_> {
    async fn confirmed(self) -> Result<(), LockError> {
        let (cell, held, released) = match self {
            Releasing::Nested(result) => return result,
            Releasing::Own { cell, held, released } => (cell, held, released),
        };
        let result = released.confirmed().await.map_err(|failed| failure(cell, failed, NOT_RELEASED));
        match &result {
            Ok(()) => trace::released(cell, held),
            Err(error) => trace::release_failed(cell, error),
        }
        result
    }
}

fn check(cell: &HoldCell, now: Time) -> Result<(), LockError> {
    match cell.state(now) {
        CellState::Until(_) => Ok(()),
        CellState::Lost(reason) => Err(lost_error(cell, reason)),
        CellState::Released => Err(lost_error(cell, LostReason::Expired)),
    }
}

fn is_held(cell: &HoldCell) -> bool {
    matches!(cell.state(clock::now()), CellState::Until(_))
}

const NOT_RELEASED: &str = "the release was not confirmed, and is repeated in the background; the lock ends \
                            with its lease at the latest";
const NOT_EXTENDED: &str = "the extension was not confirmed; the lock is held until its deadline";

/// What became of a lock when the server did not do what was asked, and why it did not.
#[derive(Debug)]
struct Unconfirmed {
    what: &'static str,
    source: Arc<dyn Error + Send + Sync>,
}

impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.source)
    }
}

impl Error for Unconfirmed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// `what` says what became of the lock if the server's answer is missing.
fn failure(cell: &HoldCell, failed: Failed, what: &'static str) -> LockError {
    match failed {
        Failed::Lost(reason) => lost_error(cell, reason),
        Failed::Unconfirmed(error) => {
            let unconfirmed = Unconfirmed { what, source: error.source };
            LockError::unavailable(LockKey::from_shared(cell.key.clone()), unconfirmed)
        }
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

/// What watches over a body. It knows nothing of the body's type: it is compiled once, not for
/// every body.
pub(crate) struct Section<'a> {
    held: &'a Held,
    on_lost: OnLost,
    scope: scope::Inherited,
    span: trace::Span,
    /// Made when the body has to wait for the first time.
    ended: Option<Pin<Box<dyn Future<Output = Option<LockError>> + Send>>>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(held: &'a Held, on_lost: OnLost) -> Self {
        let scope = scope::Inherited::with(Add::Held(held.clone()));
        Section { held, on_lost, scope, span: trace::holding(held.cell()), ended: None }
    }

    /// Polls the body. Ready when it has completed, or with the loss if that came first.
    pub(crate) fn poll_body<F: Future>(
        &mut self,
        cx: &mut Context<'_>,
        mut body: Pin<&mut F>,
    ) -> Poll<Result<F::Output, LockError>> {
        let mut output = None;
        let ended = self.poll(cx, &mut |cx| match body.as_mut().poll(cx) {
            Poll::Ready(value) => {
                output = Some(value);
                true
            }
            Poll::Pending => false,
        });
        match (output, ended) {
            (Some(output), _) => Poll::Ready(Ok(output)),
            (None, Poll::Ready(Err(lost))) => Poll::Ready(Err(lost)),
            (None, _) => Poll::Pending,
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut dyn FnMut(&mut Context<'_>) -> bool,
    ) -> Poll<Result<(), LockError>> {
        if self.on_lost == OnLost::Cancel {
            // The clock, not only a flag, and before the body: after a suspend nothing more is done.
            self.held.check()?;
            self.poll_ended(cx)?;
        }
        let completed = {
            let _entered = self.scope.enter();
            self.span.in_scope(|| body(cx))
        };
        if completed {
            return Poll::Ready(Ok(()));
        }
        if self.on_lost == OnLost::Cancel && self.ended.is_none() {
            self.ended = Some(Box::pin(Ended::of(self.held).wait()));
            self.poll_ended(cx)?;
        }
        Poll::Pending
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Result<(), LockError> {
        match self.ended.as_mut().map(|ended| ended.as_mut().poll(cx)) {
            Some(Poll::Ready(Some(lost))) => return Err(lost),
            // Released, so nothing is left to be lost; and a future that is ready is not polled again.
            Some(Poll::Ready(None)) => self.on_lost = OnLost::Continue,
            Some(Poll::Pending) | None => {}
        }
        Ok(())
    }
}

/// Runs `body` inside the section of `held`.
///
/// # Errors
/// [`LockError::Lost`] if the lock was lost and the body has been dropped for it. A body that completes
/// keeps its value.
pub(crate) async fn hold<F: Future>(held: &Held, on_lost: OnLost, body: F) -> Result<F::Output, LockError> {
    let mut body = pin!(body);
    let mut section = Section::new(held, on_lost);
    poll_fn(|cx| section.poll_body(cx, body.as_mut())).await
}

/// Runs `body` inside the section of `held`, on this thread, which cannot be stopped.
pub(crate) fn hold_here<T>(held: &Held, body: impl FnOnce() -> T) -> T {
    let _entered = scope::enter_thread(Add::Held(held.clone()));
    trace::holding(held.cell()).in_scope(body)
}

/// The end of a hold, to be waited for.
struct Ended {
    cells: Vec<Arc<HoldCell>>,
}

impl Ended {
    fn of(guard: &Guard) -> Self {
        Ended { cells: guard.parts().map(|part| part.grip.cell.clone()).collect() }
    }

    /// `Some`: the first loss. `None`: all were released.
    async fn wait(self) -> Option<LockError> {
        loop {
            let mut listeners: Vec<EventListener> = self.cells.iter().map(|cell| cell.listen()).collect();
            let now = clock::now();
            let mut all_released = true;
            for cell in &self.cells {
                match cell.state(now) {
                    CellState::Lost(reason) => return Some(lost_error(cell, reason)),
                    CellState::Until(_) => all_released = false,
                    CellState::Released => {}
                }
            }
            if all_released {
                return None;
            }
            poll_fn(|cx| {
                let any = listeners.iter_mut().any(|listener| Pin::new(listener).poll(cx).is_ready());
                if any { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }
}

fn lost_error(cell: &HoldCell, reason: LostReason) -> LockError {
    LockError::Lost { key: LockKey::from_shared(cell.key.clone()), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Failure, OpError, Token};
    use crate::engine::cell::Ticket;

    #[test]
    fn a_release_that_failed_is_not_called_harmless_and_keeps_the_servers_words() {
        let (key, token) = ("k".into(), Token(1));
        let cell =
            HoldCell::new(key, "l".into(), Ticket(1), token, None, Time(0), Time::MAX, Time::MAX, None);
        let refused =
            Failed::Unconfirmed(OpError::new(Failure::Later, "NOREPLICAS Not enough good replicas"));
        let error = failure(&cell, refused, NOT_RELEASED);
        let text = error.to_string();
        assert!(text.contains("NOREPLICAS Not enough good replicas"), "{text}");
        assert!(text.contains("repeated in the background"), "{text}");
        assert!(!text.contains("nothing is known to be held"), "{text}");
    }
}
