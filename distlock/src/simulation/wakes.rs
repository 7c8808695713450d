//! A waker that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// How often a task was woken.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Arc<Count>);

#[derive(Debug, Default)]
struct Count(AtomicUsize);

impl Wakes {
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.0.load(Ordering::Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
