//! What a task carries with it: the manager chosen by `with_manager`, and the locks held around the task.
//!
//! The scope is a thread-local that is set for each poll of the future it belongs to. So it follows the task
//! from thread to thread, and tasks that it spawns do not see it. Every branch of a `join!` inside the future
//! sees it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::iter::successors;
use std::pin::pin;

use once_cell::sync::OnceCell;

use crate::error::LockError;
use crate::held::Held;
use crate::manager_handle::ManagerHandle;

#[derive(Clone, Debug, Default)]
struct Scope {
    manager: Option<ManagerHandle>,
    /// The innermost section.
    held: Option<Held>,
}

thread_local! {
    static CURRENT: RefCell<Scope> = RefCell::default();
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
        let mut scope = CURRENT.with_borrow(Clone::clone);
        match add {
            Add::Manager(manager) => scope.manager = Some(manager),
            Add::Held(held) => {
                held.enter_inside(scope.held.take());
                scope.held = Some(held);
            }
        }
        scope
    }

    fn enter(self) -> Entered {
        Entered { previous: CURRENT.replace(self) }
    }
}

/// Restores the previous scope when dropped, also after a panic.
#[derive(Debug)]
pub(crate) struct Entered {
    previous: Scope,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(std::mem::take(&mut self.previous));
    }
}

/// Adds to the scope of this thread, until the value is dropped.
pub(crate) fn enter_thread(add: Add) -> Entered {
    Scope::current_with(add).enter()
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
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, &mut self.scope));
        Swapped(&mut self.scope)
    }
}

/// Swaps the two scopes back when dropped, also after a panic. Neither is copied.
pub(crate) struct Swapped<'a>(&'a mut Scope);

impl Drop for Swapped<'_> {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self.0));
    }
}

/// Runs `work` with an addition to its scope. It inherits at its first poll, from where it runs, not from
/// where it was created: a spawned task inherits nothing.
pub(crate) async fn scoped<F: Future>(add: Add, work: F) -> F::Output {
    let mut work = pin!(work);
    let mut scope = Inherited::with(add);
    poll_fn(|cx| {
        let _entered = scope.enter();
        work.as_mut().poll(cx)
    })
    .await
}

/// The innermost of the locks held around this task for which `wanted` returns true.
pub(crate) fn find_held(wanted: impl Fn(&Held) -> bool) -> Option<Held> {
    CURRENT.with_borrow(|scope| {
        let mut sections = successors(scope.held.as_ref(), |held| held.outer());
        sections.find(|held| wanted(held)).cloned()
    })
}

/// The keys that sections around this task hold now, the innermost first.
#[cfg(feature = "testing")]
pub(crate) fn held_here() -> Vec<String> {
    CURRENT.with_borrow(|scope| {
        let sections = successors(scope.held.as_ref(), |held| held.outer());
        let held = sections.filter(|held| held.is_held());
        held.flat_map(|held| held.keys().map(str::to_owned).collect::<Vec<_>>()).collect()
    })
}

/// The manager of the scope, or else the process's default.
pub(crate) fn manager() -> Result<ManagerHandle, LockError> {
    let scoped = CURRENT.with_borrow(|scope| scope.manager.clone());
    scoped.or_else(|| GLOBAL.get().cloned()).ok_or(LockError::NotInitialized)
}

/// Makes `manager` the process's default. Returns it if there already is one.
pub(crate) fn set_global(manager: ManagerHandle) -> Result<(), ManagerHandle> {
    GLOBAL.set(manager)
}

/// Whether this task runs inside a section (an annotated function, or [`run`](crate::LockRequest::run)) that
/// holds `key` now, with any manager. For assertions deep inside business code. A plain guard does not open a
/// section.
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
