//! Wakes the tasks whose replies were read together, and collects the work that no task awaits. The reader of the
//! replies does that work, too.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Waker;

use crate::contained::contained;

/// Work that a waker starts. It runs where observers of the program may run. If it never runs, because the runtime ends
/// that was to run it, the waker's command is taken over after a moment.
pub(crate) trait Deferred: Send + Sync {
    fn run(self: Arc<Self>);
}

/// The work that the wakers of a batch have deferred.
pub(crate) type Deferrals = Vec<Arc<dyn Deferred>>;

thread_local! {
    /// `Some`: this thread is in [`wake_all`].
    static DEFERRALS: RefCell<Option<Deferrals>> = const { RefCell::new(None) };
}

/// Wakes tasks, and adds the work that they defer to `deferrals`. The caller holds no mutex.
pub(crate) fn wake_all(wakers: impl Iterator<Item = Waker>, deferrals: &mut Deferrals) {
    let outer = set(Some(std::mem::take(deferrals)));
    for waker in wakers {
        drop(contained(|| waker.wake()));
    }
    *deferrals = set(outer).unwrap_or_default();
}

/// Returns the former value.
fn set(deferrals: Option<Deferrals>) -> Option<Deferrals> {
    DEFERRALS.try_with(|known| known.replace(deferrals)).ok().flatten()
}

/// Runs the work that was deferred. The caller holds no mutex, and is not inside the I/O driver of a runtime.
pub(crate) fn run(deferrals: &mut Deferrals) {
    for work in deferrals.drain(..) {
        drop(contained(|| work.run()));
    }
}

/// Called by a waker. `Err`: this thread is not in [`wake_all`], so the caller may hold mutexes, and another thread
/// must do the work.
pub(crate) fn defer<T: Deferred + 'static>(work: Arc<T>) -> Result<(), Arc<T>> {
    let is_deferred = DEFERRALS.try_with(|deferrals| match &mut *deferrals.borrow_mut() {
        Some(deferrals) => {
            deferrals.push(work.clone());
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
        nested: Option<Arc<Work>>,
        panics: bool,
    }

    impl Deferred for Work {
        fn run(self: Arc<Self>) {
            self.notes.lock().push("run");
            if self.panics {
                std::panic::resume_unwind(Box::new("a test"));
            }
        }
    }

    impl Wake for Work {
        fn wake(self: Arc<Self>) {
            self.notes.lock().push("woken");
            if let Some(nested) = self.nested.clone() {
                let mut deferrals = Deferrals::new();
                wake_all(std::iter::once(Waker::from(nested)), &mut deferrals);
                self.notes.lock().push("nested");
                run(&mut deferrals);
            }
            assert!(defer(self).is_ok());
        }
    }

    #[test]
    fn work_is_run_after_all_wake_ups() {
        let notes = Notes::default();
        let work = |panics| Arc::new(Work { notes: notes.clone(), nested: None, panics });
        let mut deferrals = Deferrals::new();
        wake_all([true, false].map(|panics| Waker::from(work(panics))).into_iter(), &mut deferrals);
        run(&mut deferrals);
        assert_eq!(*notes.lock(), ["woken", "woken", "run", "run"]);
        assert!(defer(work(false)).is_err(), "the batch has ended");
    }

    #[test]
    fn a_batch_inside_a_batch_has_its_own_work() {
        let notes = Notes::default();
        let nested = Some(Arc::new(Work { notes: notes.clone(), nested: None, panics: false }));
        let outer = Arc::new(Work { notes: notes.clone(), nested, panics: false });
        let mut deferrals = Deferrals::new();
        wake_all(std::iter::once(Waker::from(outer)), &mut deferrals);
        assert_eq!(*notes.lock(), ["woken", "woken", "nested", "run"]);
        run(&mut deferrals);
        assert_eq!(notes.lock().len(), 5);
    }
}
