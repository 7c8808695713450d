//! An annotated async function as one future: it acquires, runs the body while the lease is watched, and releases. Each
//! separate await would cost compile time in every annotated function.

use std::borrow::Borrow;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::hold::{Acquisition, Releasing, Slot};
use super::request::Asked;
use crate::LockError;
use crate::section::{OnLost, Section};

/// A lock that is being acquired, and its place. It is behind a trait, because for each annotated function the compiler
/// proves that every part of the future can be sent, and finds out how it is dropped.
pub struct Entered(Box<dyn AroundBody + Send + Sync>);

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}

/// Begins to acquire. The expansion calls [`section`] next, and awaits that at once.
#[must_use]
#[inline(never)]
pub fn enter(asked: Asked, on_lost: OnLost) -> Entered {
    let slot = Slot::new();
    Entered(Box::new(Place { state: LockedState::begin(&slot, asked, on_lost), slot }))
}

/// Acquires, runs the body, drops the rest of it, and releases.
pub fn section<F: Future>(entered: Entered, body: F) -> Locked<F> {
    Locked { body: Some(body), result: None, entered }
}

/// The same for a body that uses the lock, and so borrows the slot. It is pinned by the caller, so that its size is
/// paid for once.
pub fn section_in<'a, F: Future>(
    slot: &'a Slot,
    asked: Asked,
    on_lost: OnLost,
    body: Pin<&'a mut Option<F>>,
) -> LockedIn<'a, F> {
    LockedIn { place: Place { state: LockedState::begin(slot, asked, on_lost), slot }, body, result: None }
}

pin_project! {
    /// The future of [`section`]: [`LockError::Lost`] if the lock was lost and the body was dropped because of it, or
    /// why the lock was not acquired.
    // The values that were passed to the body are dropped before the lock is released.
    #[must_use = "futures do nothing unless polled"]
    pub struct Locked<F: Future> {
        #[pin]
        body: Option<F>,
        // Set while the lock is released.
        result: Option<Result<F::Output, LockError>>,
        entered: Entered,
    }

    impl<F: Future> PinnedDrop for Locked<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            this.entered.0.leave(&mut || this.body.set(None));
        }
    }
}

impl<F: Future> fmt::Debug for Locked<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").finish_non_exhaustive()
    }
}

impl<F: Future> Future for Locked<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        poll(&mut *this.entered.0, this.body, this.result, cx)
    }
}

/// The future of [`section_in`].
#[must_use = "futures do nothing unless polled"]
pub struct LockedIn<'a, F: Future> {
    place: Place<&'a Slot>,
    body: Pin<&'a mut Option<F>>,
    result: Option<Result<F::Output, LockError>>,
}

impl<F: Future> Drop for LockedIn<'_, F> {
    fn drop(&mut self) {
        let LockedIn { place, body, .. } = self;
        place.leave(&mut || body.set(None));
    }
}

/// The body is pinned elsewhere, and its result never.
impl<F: Future> Unpin for LockedIn<'_, F> {}

impl<F: Future> fmt::Debug for LockedIn<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedIn").finish_non_exhaustive()
    }
}

impl<F: Future> Future for LockedIn<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let LockedIn { place, body, result } = self.get_mut();
        poll(place, body.as_mut(), result, cx)
    }
}

fn poll<F: Future>(
    around: &mut dyn AroundBody,
    mut body: Pin<&mut Option<F>>,
    result: &mut Option<Result<F::Output, LockError>>,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, LockError>> {
    let ended = around.poll(cx, &mut |cx| {
        if let Some(Poll::Ready(output)) = body.as_mut().as_pin_mut().map(|body| body.poll(cx)) {
            *result = Some(Ok(output));
        }
        result.is_some()
    });
    if let Some(error) = ended {
        *result = Some(Err(error));
    }
    if result.is_none() {
        return Poll::Pending;
    }
    // The values of the body are dropped before the lock is released.
    around.leave(&mut || body.set(None));
    ready!(around.poll_release(cx));
    result.take().map_or(Poll::Pending, Poll::Ready)
}

/// What happens around a body.
trait AroundBody {
    /// Polls the body, which says whether it has completed, once the lock is held. Returns the error that came first.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut dyn FnMut(&mut Context<'_>) -> bool,
    ) -> Option<LockError>;

    /// Drops the rest of the body.
    fn leave(&mut self, drop_body: &mut dyn FnMut());

    /// Releases, once the body is over.
    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// A lock with its slot, or with a reference to it.
struct Place<S> {
    state: LockedState,
    slot: S,
}

impl<S: Borrow<Slot>> AroundBody for Place<S> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut dyn FnMut(&mut Context<'_>) -> bool,
    ) -> Option<LockError> {
        self.state.poll(self.slot.borrow(), cx, body)
    }

    fn leave(&mut self, drop_body: &mut dyn FnMut()) {
        self.state.leave(drop_body);
    }

    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.state.poll_release(self.slot.borrow(), cx)
    }
}

/// The part that does not depend on the body's type, so that it is compiled only once.
struct LockedState {
    on_lost: OnLost,
    stage: LockedStage,
}

enum LockedStage {
    Acquiring(Acquisition),
    /// `None`: without a lock.
    Inside(Option<Section>),
    Releasing(Releasing),
}

impl LockedState {
    fn begin(slot: &Slot, asked: Asked, on_lost: OnLost) -> Self {
        LockedState { on_lost, stage: LockedStage::Acquiring(slot.begin(asked)) }
    }

    #[inline(never)]
    fn poll(
        &mut self,
        slot: &Slot,
        cx: &mut Context<'_>,
        body: &mut dyn FnMut(&mut Context<'_>) -> bool,
    ) -> Option<LockError> {
        if let LockedStage::Acquiring(acquisition) = &mut self.stage {
            match acquisition.poll(slot, cx) {
                Poll::Pending => return None,
                Poll::Ready(Err(error)) => return Some(error),
                Poll::Ready(Ok(())) => {}
            }
            self.stage = LockedStage::Inside(Section::of(slot.held(), self.on_lost));
        }
        match &mut self.stage {
            LockedStage::Inside(section) => Section::poll_any(section, cx, body),
            LockedStage::Acquiring(_) | LockedStage::Releasing(_) => None,
        }
    }

    fn leave(&mut self, drop_body: &mut dyn FnMut()) {
        match &mut self.stage {
            LockedStage::Inside(section) => Section::leave(section, drop_body),
            LockedStage::Acquiring(_) | LockedStage::Releasing(_) => drop_body(),
        }
    }

    #[inline(never)]
    fn poll_release(&mut self, slot: &Slot, cx: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.stage, LockedStage::Releasing(_)) {
            // The body's section ends before its lock.
            self.stage = LockedStage::Inside(None);
            self.stage = LockedStage::Releasing(slot.release());
        }
        match &mut self.stage {
            LockedStage::Releasing(releasing) => Pin::new(releasing).poll(cx),
            LockedStage::Acquiring(_) | LockedStage::Inside(_) => Poll::Ready(()),
        }
    }
}
