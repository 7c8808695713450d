//! A section: a body that runs while a lock is held.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::LockError;
use crate::guard::{Guard, GuardEnd};
use crate::held::Held;
use crate::observe::spans;
use crate::release::{Release, Releases};
use crate::scope::{self, Add};

/// A lock that a section holds. When it is dropped before the end of the section, the lock is released, even
/// if the body has passed handles on.
#[derive(Debug)]
pub(crate) struct Holding {
    held: Held,
    release: Release,
}

impl Holding {
    pub(crate) fn new(guard: Guard, release: Release) -> Self {
        Holding { held: Held::new(guard), release }
    }

    pub(crate) fn handle(&self) -> &Held {
        &self.held
    }

    /// The end of the section. Every release has been started when this returns.
    pub(crate) fn begin_release(&self) -> Releases {
        let mut releases = self.held.begin_release();
        if self.release == Release::Background {
            releases.leave_to_background();
        }
        releases
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        // No effect if it was released.
        self.held.abandon();
    }
}

/// The effect of a loss on the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLost {
    /// It is dropped at its next await point.
    Cancel,
    /// It continues.
    Continue,
}

/// Watches over a body while a lock is held, and does not release it. It does not depend on the body's type, so it is
/// compiled only once.
pub(crate) struct Section {
    held: Held,
    on_lost: OnLost,
    scope: scope::Inherited,
    span: spans::Span,
    /// Created when the body has to wait for the first time.
    ended: Option<Pin<Box<dyn Future<Output = Option<LockError>> + Send + Sync>>>,
}

impl Section {
    /// `None`: the body runs without a lock.
    #[inline(never)]
    pub(crate) fn of(held: Option<&Held>, on_lost: OnLost) -> Option<Self> {
        let held = held?.clone();
        let scope = scope::Inherited::with(Add::Held(held.clone()));
        let span = spans::holding(held.cell());
        Some(Section { held, on_lost, scope, span, ended: None })
    }

    /// Drops the rest of the body, in its section if it has one, because the dropped values may check its locks, or
    /// acquire others.
    #[inline(never)]
    pub(crate) fn leave(section: &mut Option<Self>, drop_body: &mut dyn FnMut()) {
        match section {
            Some(Section { scope, span, .. }) => {
                let _entered = scope.enter();
                span.in_scope(drop_body);
            }
            None => drop_body(),
        }
    }

    /// Polls the body, in its section if it has one. Returns the loss if that came first.
    #[inline(never)]
    pub(crate) fn poll_any(
        section: &mut Option<Self>,
        cx: &mut Context<'_>,
        body: &mut dyn FnMut(&mut Context<'_>) -> bool,
    ) -> Option<LockError> {
        match section {
            Some(section) => match section.poll(cx, body) {
                Poll::Ready(Err(lost)) => Some(lost),
                Poll::Ready(Ok(())) | Poll::Pending => None,
            },
            None => {
                body(cx);
                None
            }
        }
    }

    /// Polls the body, which says whether it has completed. Ready when it has, or with the loss if that came
    /// first.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut dyn FnMut(&mut Context<'_>) -> bool,
    ) -> Poll<Result<(), LockError>> {
        if self.on_lost == OnLost::Cancel {
            // Checks the clock, not only a flag, and before the body is polled: after a suspend the body must
            // not continue.
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
            self.ended = Some(Box::pin(GuardEnd::of(&self.held).wait()));
            self.poll_ended(cx)?;
        }
        Poll::Pending
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Result<(), LockError> {
        match self.ended.as_mut().map(|ended| ended.as_mut().poll(cx)) {
            Some(Poll::Ready(Some(lost))) => return Err(lost),
            // The lock was released, so it can no longer be lost; and a future that was ready is not polled
            // again.
            Some(Poll::Ready(None)) => self.on_lost = OnLost::Continue,
            Some(Poll::Pending) | None => {}
        }
        Ok(())
    }
}

impl Drop for Section {
    /// However the body has ended.
    fn drop(&mut self) {
        spans::held(&self.span, || self.held.check_here());
    }
}

/// A body that runs while the lease is watched, or just runs if there is no lock. Yields [`LockError::Lost`] if the
/// lock was lost and the body has to be dropped because of it. The caller pins the body, so that it exists only once in
/// memory. It is dropped with this future.
#[must_use = "futures do nothing unless polled"]
pub struct Hold<'a, F> {
    section: Option<Section>,
    body: Pin<&'a mut Option<F>>,
}

impl<'a, F: Future> Hold<'a, F> {
    pub(crate) fn new(held: Option<&Held>, on_lost: OnLost, body: Pin<&'a mut Option<F>>) -> Self {
        Hold { section: Section::of(held, on_lost), body }
    }
}

impl<F> Drop for Hold<'_, F> {
    fn drop(&mut self) {
        let Hold { section, body } = self;
        Section::leave(section, &mut || body.set(None));
    }
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
        let mut output = Poll::Pending;
        let lost = Section::poll_any(section, cx, &mut |cx| {
            if let Some(body) = body.as_mut().as_pin_mut() {
                output = body.poll(cx);
            }
            output.is_ready()
        });
        match lost {
            Some(lost) => Poll::Ready(Err(lost)),
            None => output.map(Ok),
        }
    }
}

/// Runs `body` inside the section of `held` on this thread. The body cannot be stopped.
pub(crate) fn hold_here<T>(held: &Held, body: impl FnOnce() -> T) -> T {
    let (mut body, mut output) = (Some(body), None);
    run_here(held, &mut || output = body.take().map(|body| body()));
    match output {
        Some(output) => output,
        None => unreachable!("the body was not run"),
    }
}

#[inline(never)]
fn run_here(held: &Held, body: &mut dyn FnMut()) {
    let _entered = scope::enter_thread(Add::Held(held.clone()));
    let span = spans::holding(held.cell());
    span.in_scope(body);
    spans::held(&span, || held.check_here());
}
