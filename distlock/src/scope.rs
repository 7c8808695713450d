//! The scope of a task: the manager that `with_manager` chose, and the locks that sections around the task hold.
//!
//! The scope is a thread-local that is set for each poll of the future it belongs to, and while that future is
//! dropped. So it follows the task from thread to thread, and tasks that it spawns do not see it. Those that run on
//! the same thread while it is polled (a `LocalSet`, a runtime that the body drives) see the manager, and not the
//! locks. Every branch of a `join!` inside the future sees it all.

use std::cell::RefCell;
use std::iter::successors;
use std::mem;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};

use once_cell::sync::OnceCell;
use pin_project_lite::pin_project;
use tokio::task::{Id, try_id};

use crate::driver::Around;
use crate::error::LockError;
use crate::held::Held;
use crate::manager_handle::ManagerHandle;

#[derive(Clone, Debug, Default)]
struct Scope {
    manager: Option<ManagerHandle>,
    /// The innermost section.
    held: Option<Held>,
    /// Whether that section belongs to this scope. Otherwise the scope has inherited it.
    is_own: bool,
    /// The task that has entered it; `None` outside tokio's tasks.
    task: Option<Id>,
}

thread_local! {
    static CURRENT: RefCell<Scope> = RefCell::default();
}

/// On a thread that ends, when its thread-locals are gone already, there is nothing to look at.
fn look<T: Default>(at: impl FnOnce(&Scope) -> T) -> T {
    CURRENT.try_with(|current| at(&current.borrow())).unwrap_or_default()
}

/// And nothing to swap.
fn swap(scope: &mut Scope) {
    let _ = CURRENT.try_with(|current| mem::swap(&mut *current.borrow_mut(), scope));
}

static GLOBAL: OnceCell<ManagerHandle> = OnceCell::new();

/// What to add to a scope.
#[derive(Clone, Debug)]
pub(crate) enum Add {
    Manager(ManagerHandle),
    Held(Held),
}

impl Scope {
    fn current_with(add: Add) -> Scope {
        let (manager, held) = look(|scope| (scope.manager.clone(), scope.held().cloned()));
        match add {
            Add::Manager(manager) => Scope { manager: Some(manager), held, is_own: false, task: None },
            Add::Held(inner) => {
                inner.enter_inside(held);
                Scope { manager, held: Some(inner), is_own: true, task: None }
            }
        }
    }

    /// The innermost section, if it is one of the running task: another task may run on this thread meanwhile.
    fn held(&self) -> Option<&Held> {
        self.held.as_ref().filter(|_| self.task == try_id())
    }

    /// The innermost section and those around it, if they belong to the running task.
    fn sections(&self) -> impl Iterator<Item = &Held> {
        successors(self.held(), |held| held.outer())
    }

    /// The task that it belongs to may be another one than at the last time.
    fn entered(&mut self) {
        self.leave_sections_of_others();
        self.task = try_id();
        swap(self);
    }

    /// A future that was polled inside a section may be polled outside of it later, and even by another task. Then the
    /// section's lock is not its own.
    fn leave_sections_of_others(&mut self) {
        let Some(held) = &self.held else { return };
        let first = if self.is_own { held.outer() } else { Some(held) };
        // Those that have ended in the meantime grant nothing.
        let Some(outer) = successors(first, |held| held.outer()).find(|held| held.is_held()) else { return };
        if look(|now| now.sections().any(|around| around.is_same(outer))) {
            return;
        }
        if self.is_own {
            held.leave_outer();
        } else {
            self.held = None;
        }
    }
}

/// Restores the previous scope when dropped, also after a panic.
#[derive(Debug)]
pub(crate) struct ScopeGuard {
    previous: Scope,
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        swap(&mut self.previous);
    }
}

/// Adds to the scope of this thread, until the value is dropped.
pub(crate) fn enter_thread(add: Add) -> ScopeGuard {
    let mut scope = Scope::current_with(add);
    scope.entered();
    ScopeGuard { previous: scope }
}

/// A scope that is inherited, with an addition, when it is first entered. It stays the same from then on.
#[derive(Debug)]
pub(crate) struct Inherited {
    add: Option<Add>,
    scope: Scope,
}

impl Inherited {
    pub(crate) fn with(add: Add) -> Self {
        Inherited { add: Some(add), scope: Scope::default() }
    }

    /// It is the scope of this thread until the value is dropped.
    pub(crate) fn enter(&mut self) -> Swapped<'_> {
        if let Some(add) = self.add.take() {
            self.scope = Scope::current_with(add);
        }
        self.scope.entered();
        Swapped(&mut self.scope)
    }
}

/// Swaps the two scopes back when dropped, also after a panic. Neither is copied.
pub(crate) struct Swapped<'a>(&'a mut Scope);

impl Drop for Swapped<'_> {
    fn drop(&mut self) {
        swap(self.0);
    }
}

pin_project! {
    /// The future of [`scoped`].
    struct Scoped<F> {
        #[pin]
        work: Option<F>,
        scope: Inherited,
    }

    impl<F> PinnedDrop for Scoped<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // The remaining values of the work may lock something when they are dropped.
            let _entered = this.scope.enter();
            this.work.set(None);
        }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = this.scope.enter();
        // The work exists until the drop.
        this.work.as_pin_mut().map_or(Poll::Pending, |work| work.poll(cx))
    }
}

/// Runs `work` with an addition to its scope. It inherits the scope in which it is first polled, not the one in which
/// it was created. So a spawned task inherits nothing.
pub(crate) fn scoped<F: Future>(add: Add, work: F) -> impl Future<Output = F::Output> {
    Scoped { work: Some(work), scope: Inherited::with(add) }
}

/// The innermost of the locks held around this task for which `wanted` returns true.
pub(crate) fn find_held(wanted: impl Fn(&Held) -> bool) -> Option<Held> {
    look(|scope| scope.sections().find(|held| wanted(held)).cloned())
}

/// The sections around this task.
pub(crate) fn around() -> Option<Weak<dyn Around>> {
    look(|scope| scope.held().map(Held::as_around))
}

/// The keys that sections around this task hold now, the innermost first.
pub(crate) fn held_here() -> Vec<String> {
    look(|scope| {
        let held = scope.sections().filter(|held| held.is_held());
        held.flat_map(|held| held.keys().map(str::to_owned).collect::<Vec<_>>()).collect()
    })
}

/// The manager of the scope, or else the process's default.
pub(crate) fn manager() -> Result<ManagerHandle, LockError> {
    let scoped = look(|scope| scope.manager.clone());
    scoped.or_else(|| GLOBAL.get().cloned()).ok_or(LockError::NotInitialized)
}

/// Makes `manager` the process's default. Returns it if there already is one.
pub(crate) fn set_global(manager: ManagerHandle) -> Result<(), ManagerHandle> {
    GLOBAL.set(manager)
}

/// Whether this task runs inside a section (an annotated function, or [`run`](crate::LockRequest::run)) that holds
/// `key` now, with any manager. For assertions in business code. A plain guard is not a section.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// manager.lock("k").run(async |_held| {
///     assert!(distlock::is_held_here("k"));
/// }).await?;
/// assert!(!distlock::is_held_here("k"));
/// # Ok(())
/// # }
/// ```
#[doc(alias("LockAssert", "assertLocked", "isHeldByCurrentThread"))]
#[must_use]
pub fn is_held_here(key: impl AsRef<str>) -> bool {
    let key = key.as_ref();
    find_held(|held| held.covers(None, key)).is_some()
}
