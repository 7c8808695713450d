//! The manager that annotated functions use.

use super::LockManager;
use crate::scope::{self, Add};

/// Makes `manager` the default of this process. Annotated functions use it unless they name another manager.
///
/// # Errors
/// Returns `manager` if the process already has a default. The default does not change.
///
/// ```
/// use distlock::{LockError, LockManager, distributed_lock};
///
/// #[distributed_lock(key = "order:<id>")]
/// async fn pay(id: u64) -> Result<&'static str, LockError> {
///     Ok("paid")
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), LockError> {
///     let manager = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/").await?
///     distlock::init(manager).expect("called once");
///     assert_eq!(pay(42).await?, "paid");
///     Ok(())
/// }
/// ```
#[doc(alias("global", "static", "default manager", "set_default"))]
pub fn init(manager: LockManager) -> Result<(), LockManager> {
    scope::set_global(manager.0).map_err(LockManager)
}

/// Runs `work` with `manager` as its default instead of the default of the process. For tests, tenants, and programs
/// with several servers.
///
/// It applies to `work` and to everything that `work` awaits, but not to tasks that it spawns. A server spawns a task
/// for each connection, so the handlers of a server that runs inside `work` do not see this manager. In that case, keep
/// the manager in the program's state and write `manager = state.locks` in the attribute. If your own code spawns the
/// task, pass the manager on:
///
/// ```
/// # async fn handle() -> Result<(), distlock::LockError> { Ok(()) }
/// # async fn doc() -> Result<(), distlock::LockError> {
/// let manager = distlock::LockManager::current()?;
/// tokio::spawn(distlock::with_manager(manager, async { handle().await }));
/// # Ok(()) }
/// ```
///
/// # Cancel safety
/// As cancel-safe as `work`.
#[doc(alias("scope", "tenant", "tests", "provide"))]
pub async fn with_manager<F: Future>(manager: LockManager, work: F) -> F::Output {
    scope::scoped(Add::Manager(manager.0), work).await
}
