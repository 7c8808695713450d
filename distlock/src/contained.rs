//! Calling code that is not ours, a log subscriber or the waker of somebody's task, where a panic of it must
//! not end what we are doing.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A panic that was caught. The panic hook has reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panicked(String);

impl Panicked {
    pub(crate) fn from_payload(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Panicked(text.unwrap_or_else(|| "no message".to_owned()))
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a panic: {}", self.0)
    }
}

impl Error for Panicked {}

/// What `work` returns, unless it panics.
///
/// What it shares with others may be in the middle of a change when it panics. That is sound here: data is
/// shared through atomics and through mutexes that are locked by our own code only, for one step of its
/// bookkeeping, and never while foreign code runs. (If our own code panics in such a step, that key's
/// bookkeeping may be wrong, but the lease deadlines of its holders and the owner tokens on the server still
/// keep every lock exclusive.)
pub(crate) fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::from_payload(&*payload))
}

/// Polls a future, which must not be polled again after a panic.
pub(crate) fn poll_contained<T>(
    future: Pin<&mut (dyn Future<Output = T> + Send)>,
    cx: &mut Context<'_>,
) -> Poll<Result<T, Panicked>> {
    match contained(|| future.poll(cx)) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panicked) => Poll::Ready(Err(panicked)),
    }
}

/// Lends out wakers that a panic of the program's own does not get out of: for lists of listeners, which are
/// left half told by one.
#[derive(Debug, Default)]
pub(crate) struct ContainedWakers {
    last: Option<(Waker, Waker)>,
}

impl ContainedWakers {
    pub(crate) fn of(&mut self, waker: &Waker) -> &Waker {
        let fits = |last: &(Waker, Waker)| last.0.will_wake(waker);
        let last = self.last.take().filter(fits);
        let made = || (waker.clone(), Waker::from(Arc::new(ContainedWaker(waker.clone()))));
        &self.last.insert(last.unwrap_or_else(made)).1
    }
}

struct ContainedWaker(Waker);

impl Wake for ContainedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The panic hook has reported it, and its task is for the program to look after.
        drop(contained(|| self.0.wake_by_ref()));
    }
}
