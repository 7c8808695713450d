//! Wakes the tasks whose replies were read together, and then does the work that no task awaits, on the same thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Waker;

use crate::contained::contained;

/// Work that a waker starts.
pub(crate) trait Deferred: Send + Sync {
    fn run(self: Arc<Self>);
}

type Rest = Vec<Arc<dyn Deferred>>;

thread_local! {
    /// `Some`: this thread is in [`wake_all`].
    static REST: RefCell<Option<Rest>> = const { RefCell::new(None) };
}

/// Wakes tasks, and then runs the work that they have deferred. The caller holds no mutex.
pub(crate) fn wake_all(wakers: impl Iterator<Item = Waker>) {
    let begins = REST.try_with(|rest| {
        let is_first = rest.borrow().is_none();
        if is_first {
            rest.replace(Some(Vec::new()));
        }
        is_first
    });
    for waker in wakers {
        drop(contained(|| waker.wake()));
    }
    if begins == Ok(true) {
        while let Some(rest) = take_rest() {
            for work in rest {
                drop(contained(|| work.run()));
            }
        }
    }
}

/// `None`: nothing is left, and the batch has ended.
fn take_rest() -> Option<Rest> {
    let take = |rest: &RefCell<Option<Rest>>| {
        let now = rest.take().filter(|now| !now.is_empty());
        rest.replace(now.is_some().then(Vec::new));
        now
    };
    REST.try_with(take).ok().flatten()
}

/// Called by a waker. `Err`: this thread is not in [`wake_all`], so the caller may hold mutexes, and another thread
/// must do the work.
pub(crate) fn defer<T: Deferred + 'static>(work: Arc<T>) -> Result<(), Arc<T>> {
    let is_deferred = REST.try_with(|rest| match &mut *rest.borrow_mut() {
        Some(rest) => {
            rest.push(work.clone());
            true
        }
        None => false,
    });
    if is_deferred == Ok(true) { Ok(()) } else { Err(work) }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;
    use distlock_store::kit::sync::Locked;

    /// Notes what happens, in its order.
    type Notes = Arc<Locked<Vec<&'static str>>>;

    struct Work {
        notes: Notes,
        next: Option<Arc<Work>>,
        panics: bool,
    }

    impl Deferred for Work {
        fn run(self: Arc<Self>) {
            self.notes.lock().push("run");
            if let Some(next) = self.next.clone() {
                wake_all(std::iter::once(Waker::from(next)));
                self.notes.lock().push("nested wake-ups are over");
            }
            if self.panics {
                std::panic::resume_unwind(Box::new("a test"));
            }
        }
    }

    impl Wake for Work {
        fn wake(self: Arc<Self>) {
            self.notes.lock().push("woken");
            assert!(defer(self).is_ok());
        }
    }

    #[test]
    fn work_is_run_after_all_wake_ups() {
        let notes = Notes::default();
        let work = |panics| Arc::new(Work { notes: notes.clone(), next: None, panics });
        wake_all([true, false].map(|panics| Waker::from(work(panics))).into_iter());
        assert_eq!(*notes.lock(), ["woken", "woken", "run", "run"]);
        assert!(defer(work(false)).is_err(), "the batch has ended");
    }

    #[test]
    fn work_may_wake_tasks_whose_work_is_run_later() {
        let notes = Notes::default();
        let next = Some(Arc::new(Work { notes: notes.clone(), next: None, panics: false }));
        wake_all(std::iter::once(Waker::from(Arc::new(Work { notes: notes.clone(), next, panics: false }))));
        assert_eq!(*notes.lock(), ["woken", "run", "woken", "nested wake-ups are over", "run"]);
    }
}
