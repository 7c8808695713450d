//! A thread that waits for a future.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark {
    thread: Thread,
    /// Code that the future calls may park the thread itself, and take its token.
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Runs a future of this crate on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    // On a worker of a tokio runtime, a task that has used up its budget gets its wake-ups only after it has
    // yielded, which a parked thread never does.
    let mut future = pin!(tokio::task::unconstrained(future));
    let unpark = Arc::new(Unpark { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(unpark.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !unpark.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Code that a future calls may park the thread, for example a store of the program.
    #[test]
    fn a_wake_up_is_not_lost_although_the_future_itself_parks() {
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let mut polls = 0;
            block_on(poll_fn(|context| {
                polls += 1;
                if polls == 2 {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                thread::park_timeout(Duration::ZERO);
                Poll::Pending
            }));
            ended.send(())
        });
        end.recv_timeout(Duration::from_secs(60)).expect("the future is polled again");
    }
}
