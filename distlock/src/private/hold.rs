//! The owner of the lock while the body runs.

use std::fmt;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use tokio::task::coop::{has_budget_remaining, poll_proceed};

use super::request::Asked;
use crate::blocking::block_on;
use crate::request::AcquireFuture;
use crate::scope::{self, Add};
use crate::section::Holding;
pub use crate::section::{Hold, OnLost};
use crate::{FencingToken, Guard, Held, LockError, Release};

/// The owner of the lock. It is declared before everything that the body may use, and so dropped after it. It is shared
/// with the body, which is created before the lock.
#[derive(Debug, Default)]
pub struct Slot(OnceLock<Holding>);

impl Slot {
    /// Holds nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Slot(OnceLock::new())
    }

    /// Acquires, and keeps the lock. The expansion awaits it at once.
    pub fn acquire(&self, asked: Asked) -> Acquiring<'_> {
        Acquiring { slot: self, acquisition: self.begin(asked) }
    }

    #[inline(never)]
    pub(super) fn begin(&self, asked: Asked) -> Acquisition {
        let request = match asked.0 {
            Ok(Some(request)) => request,
            Ok(None) => return Acquisition::Known(Some(Ok(()))),
            Err(error) => return Acquisition::Known(Some(Err(error))),
        };
        let release = request.release_policy();
        let mut acquire = AcquireFuture::new(request);
        // A task that has to yield to other tasks begins with its first poll.
        let begun = if has_budget_remaining() { acquire.begin() } else { None };
        match begun {
            Some(result) => Acquisition::Known(Some(self.keep(result, release))),
            None => Acquisition::UnderWay(release, Box::pin(acquire)),
        }
    }

    fn keep(&self, acquired: Result<Guard, LockError>, release: Release) -> Result<(), LockError> {
        // It is empty: there is one request.
        drop(self.0.set(Holding::new(acquired?, release)));
        Ok(())
    }

    /// The same on a thread.
    ///
    /// # Errors
    /// Those of the request, and that there is no manager.
    #[inline(never)]
    pub fn acquire_blocking(&self, asked: Asked) -> Result<(), LockError> {
        let Some(request) = asked.0? else { return Ok(()) };
        let release = request.release_policy();
        let acquired = block_on(AcquireFuture::new(request));
        self.keep(acquired, release)
    }

    /// The lock, if it was acquired.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        self.0.get().map(Holding::handle)
    }

    /// Releases the lock, and waits for the reply unless the request says otherwise. A failure is reported, not
    /// returned. The expansion awaits this future at once.
    #[inline(never)]
    pub fn release(&self) -> Releasing {
        Releasing(self.0.get().and_then(|holding| {
            let mut releases = holding.begin_release();
            let under_way = releases.now().is_none();
            under_way.then(|| -> UnderWay<Result<(), LockError>> { Box::pin(releases) })
        }))
    }

    /// The same on a thread.
    #[inline(never)]
    pub fn release_blocking(&self) {
        if let Some(holding) = self.0.get() {
            drop(block_on(holding.begin_release()));
        }
    }

    /// Releases the lock. Returns the error if the lock had been lost.
    #[inline(never)]
    pub fn finish_blocking(&self) -> Option<LockError> {
        let holding = self.0.get()?;
        block_on(holding.begin_release()).err().filter(LockError::is_lost)
    }
}

/// Wraps the parts of the arguments that the patterns do not bind, and that the body therefore does not own. They are
/// dropped in the scope of the section, too. This is dropped last of the three.
#[derive(Debug)]
pub struct Outside<'a> {
    slot: &'a Slot,
    /// Until this is dropped.
    entered: OnceLock<scope::ScopeGuard>,
}

/// Dropped first of the three: the next value is dropped in the scope.
#[derive(Debug)]
pub struct Inside<'a>(&'a Outside<'a>);

impl Slot {
    /// Declared before the values that it leaves behind.
    #[must_use]
    pub fn outside(&self) -> Outside<'_> {
        Outside { slot: self, entered: OnceLock::new() }
    }
}

impl Outside<'_> {
    /// Declared behind it.
    #[must_use]
    pub fn inside(&self) -> Inside<'_> {
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(held) = self.0.slot.held() {
            self.0.entered.get_or_init(|| scope::enter_thread(Add::Held(held.clone())));
        }
    }
}

/// Behind a pointer: its code is compiled in this crate, and its size is not part of the annotated function's.
type UnderWay<T> = Pin<Box<dyn Future<Output = T> + Send + Sync>>;

/// How far the acquisition has got. The lock goes into the slot that began it.
pub(super) enum Acquisition {
    Known(Option<Result<(), LockError>>),
    UnderWay(Release, UnderWay<Result<Guard, LockError>>),
}

impl Acquisition {
    #[inline(never)]
    pub(super) fn poll(&mut self, slot: &Slot, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        match self {
            Acquisition::Known(result) => {
                ready!(poll_proceed(cx)).made_progress();
                result.take().map_or(Poll::Pending, Poll::Ready)
            }
            Acquisition::UnderWay(release, acquire) => {
                let acquired = ready!(acquire.as_mut().poll(cx));
                Poll::Ready(slot.keep(acquired, *release))
            }
        }
    }
}

/// The future of [`Slot::acquire`].
#[must_use = "futures do nothing unless polled"]
pub struct Acquiring<'a> {
    slot: &'a Slot,
    acquisition: Acquisition,
}

impl fmt::Debug for Acquiring<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").finish_non_exhaustive()
    }
}

impl Future for Acquiring<'_> {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = self.slot;
        self.acquisition.poll(slot, cx)
    }
}

/// The future of [`Slot::release`].
#[must_use = "futures do nothing unless polled"]
pub struct Releasing(Option<UnderWay<Result<(), LockError>>>);

impl fmt::Debug for Releasing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Releasing").finish_non_exhaustive()
    }
}

impl Future for Releasing {
    type Output = ();

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(release) => release.as_mut().poll(cx).map(drop),
            None => Poll::Ready(()),
        }
    }
}

/// Runs a body while the lease is watched, or just runs it. The body is pinned by the caller, so that its size
/// is paid for once.
pub fn hold<'a, F: Future>(
    held: Option<&'a Held>,
    on_lost: OnLost,
    body: Pin<&'a mut Option<F>>,
) -> Hold<'a, F> {
    Hold::new(held, on_lost, body)
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
