//! Calls foreign code (a log subscriber, the waker of a task) where its panic must not interrupt our own work.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
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

/// Returns what `work` returns, unless it panics.
///
/// If `work` panics, data that it shares with other code may be half changed. This is sound here: data is shared
/// through atomics, and through mutexes that only our own code locks, for one step of its bookkeeping, and never while
/// foreign code runs. (If our own code panics in such a step, the bookkeeping of that key may be wrong, but the lease
/// deadlines of its holders and the owner tokens on the server still keep every lock exclusive.)
pub(crate) fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::from_payload(&*payload))
}

/// Polls a future. It must not be polled again after a panic.
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

/// Awaits an event that one of our own tasks causes. If the waker of this caller panics, that task, and other callers
/// that await the same event, do not notice it.
pub(crate) async fn with_contained_waker<T>(event: impl Future<Output = T>) -> T {
    let mut event = pin!(event);
    poll_fn(|cx| {
        let waker = Waker::from(Arc::new(ContainedWaker(cx.waker().clone())));
        event.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

struct ContainedWaker(Waker);

impl Wake for ContainedWaker {
    fn wake(self: Arc<Self>) {
        // Its drop may panic, too.
        drop(contained(move || self.0.wake_by_ref()));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::simulation::wakes::Wakes;

    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            panic!("the waker panics on purpose");
        }
    }

    #[test]
    fn a_waker_that_panics_disturbs_neither_the_sender_nor_the_other_receivers() {
        let sender = watch::Sender::new(false);
        let changed = |mut receiver: watch::Receiver<bool>| async move {
            drop(receiver.wait_for(|changed| *changed).await);
        };
        let wakes = Wakes::default();
        let all: Vec<_> = (0..64)
            .map(|number| {
                let waker = if number % 2 == 0 { Waker::from(Arc::new(Panicking)) } else { wakes.waker() };
                let mut waiting = Box::pin(with_contained_waker(changed(sender.subscribe())));
                assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                waiting
            })
            .collect();
        sender.send_replace(true);
        assert_eq!(wakes.count(), all.len() / 2);
    }
}
