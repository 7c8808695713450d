//! The handle to a lock that the body of a section gets.

use std::future::{Ready, ready};
use std::iter::successors;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::driver::Around;
use crate::error::LockError;
use crate::guard::Guard;
use crate::lease_cell::LeaseCell;

/// A handle to a lock that its section releases: the argument that [`run`](crate::LockRequest::run) and the attribute
/// give to the body. It dereferences to [`Guard`]. It is `'static` and cheap to clone, for spawned tasks.
///
/// A handle does not keep the lock. The lock is released when its section returns, is dropped or panics, even if clones
/// of the handle exist. After that, the clones report the lock as not held.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// manager.lock("import").run(async |held| {
///     let helper = held.clone();
///     tokio::spawn(async move { helper.check() }).await.expect("it does not panic")
/// }).await?
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Held(Arc<HeldSection>);

/// A lock with the place of its section among those around it.
#[derive(Debug)]
struct HeldSection {
    guard: Guard,
    /// The section around this one, once it has been entered.
    outer: OnceLock<Held>,
    /// Its future was moved out of that section.
    is_apart: AtomicBool,
}

impl HeldSection {
    fn outer(&self) -> Option<&Held> {
        self.outer.get().filter(|_| !self.is_apart.load(Ordering::Relaxed))
    }
}

impl Held {
    pub(crate) fn new(guard: Guard) -> Self {
        Held(Arc::new(HeldSection { guard, outer: OnceLock::new(), is_apart: AtomicBool::new(false) }))
    }

    /// Never compiles. The compiler says that the section releases the lock, instead of an error about moving out of a
    /// reference.
    #[doc(hidden)]
    pub fn release<'a>(&'a self) -> Ready<Result<(), LockError>>
    where
        &'a Self: ReleasedByHand,
    {
        ready(Ok(()))
    }

    /// The section of this lock is entered, inside that of `outer`. It is entered once.
    pub(crate) fn enter_inside(&self, outer: Option<Held>) {
        if let Some(outer) = outer {
            self.0.outer.get_or_init(|| outer);
        }
    }

    /// This section and those around it, for as long as it lasts.
    pub(crate) fn as_around(&self) -> Weak<dyn Around> {
        let section: Weak<HeldSection> = Arc::downgrade(&self.0);
        section
    }

    /// The lock held around this one.
    pub(crate) fn outer(&self) -> Option<&Held> {
        self.0.outer()
    }

    /// The section is no longer inside that of `outer`.
    pub(crate) fn leave_outer(&self) {
        self.0.is_apart.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_same(&self, other: &Held) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Around for HeldSection {
    fn holds(&self, manager: u64) -> Vec<Arc<LeaseCell>> {
        let sections = successors(Some(self), |section| section.outer().map(|outer| &*outer.0));
        sections.flat_map(|section| section.guard.exclusive_cells(manager)).collect()
    }
}

/// Nothing implements it.
#[diagnostic::on_unimplemented(
    message = "the lock of `{Self}` is released at the end of its section: of the function, or of `run`",
    label = "this handle does not own the lock",
    note = "return from the function where the lock is to be released",
    note = "or acquire a guard in it, which can be released at any time: `let guard = manager.lock(key).acquire().await?`"
)]
pub trait ReleasedByHand {}

impl Deref for Held {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0.guard
    }
}
