//! A section: a body that runs while a lock is held, and the handle to the lock that the body gets.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::LockError;
use crate::guard::{Ended, Guard};
use crate::observe::spans;
use crate::scope::{self, Add};

/// A handle to a lock that its section releases: the argument that [`run`](crate::LockRequest::run) and the
/// attribute give to the body. Dereferences to [`Guard`]; cheap to clone and `'static`, for spawned tasks.
///
/// It does not keep the lock: the lock is released when its section ends, is dropped or panics, even if
/// clones of the handle exist. From then on they report it as not held.
#[derive(Clone, Debug)]
pub struct Held(Arc<Guard>);

/// A lock that a section holds. When it is dropped before the end of the section, the lock is released, even
/// if the body has passed handles on.
#[derive(Debug)]
pub(crate) struct Holding(Held);

impl Holding {
    pub(crate) fn new(guard: Guard) -> Self {
        Holding(Held(Arc::new(guard)))
    }

    pub(crate) fn handle(&self) -> &Held {
        &self.0
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        // No effect if it was released.
        self.0.abandon();
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
pub enum OnLost {
    /// It is dropped at its next await point.
    Cancel,
    /// It goes on.
    Continue,
}

/// Watches over a body. It does not depend on the body's type, so it is compiled only once.
pub(crate) struct Section<'a> {
    held: &'a Held,
    on_lost: OnLost,
    scope: scope::Inherited,
    span: spans::Span,
    /// Created when the body has to wait for the first time.
    ended: Option<Pin<Box<dyn Future<Output = Option<LockError>> + Send + Sync>>>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(held: &'a Held, on_lost: OnLost) -> Self {
        let scope = scope::Inherited::with(Add::Held(held.clone()));
        Section { held, on_lost, scope, span: spans::holding(held.cell()), ended: None }
    }

    /// Polls the body. Ready when the body has completed, or with the loss if that came first.
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
            // Checks the clock, not only a flag, and before the body is polled: after a suspend the body must
            // not go on.
            self.held.check_here()?;
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
            // The lock was released, so it cannot be lost any more; and a future that was ready is not polled
            // again.
            Some(Poll::Ready(None)) => self.on_lost = OnLost::Continue,
            Some(Poll::Pending) | None => {}
        }
        Ok(())
    }
}

/// Runs `body` inside the section of `held`.
///
/// # Errors
/// [`LockError::Lost`] if the lock was lost and the body was dropped because of it. If the body completes,
/// its value is returned.
pub(crate) async fn hold<F: Future>(held: &Held, on_lost: OnLost, body: F) -> Result<F::Output, LockError> {
    let mut body = pin!(body);
    let mut section = Section::new(held, on_lost);
    poll_fn(|cx| section.poll_body(cx, body.as_mut())).await
}

/// Runs `body` inside the section of `held` on this thread. The body cannot be stopped.
pub(crate) fn hold_here<T>(held: &Held, body: impl FnOnce() -> T) -> T {
    let _entered = scope::enter_thread(Add::Held(held.clone()));
    spans::holding(held.cell()).in_scope(body)
}
