//! A thread that waits for a future.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future of this crate on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    // On a worker of a tokio runtime, a task that has used up its budget gets its wake-ups only after it has
    // yielded, which a parked thread never does.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // May return early: then the future is simply polled once more.
            Poll::Pending => thread::park(),
        }
    }
}
