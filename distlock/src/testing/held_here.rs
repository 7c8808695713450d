//! Assertions about the locks around the code that makes them.

use crate::scope;

/// Panics unless the caller runs inside a section (an annotated function, or [`run`](crate::LockRequest::run)) that
/// holds `key` now, with any manager. The message names the held keys.
///
/// ```
/// use distlock::testing::assert_held_here;
/// use distlock::{LockError, LockManager};
///
/// trait Ledger {
///     fn book(&self, account: u64, points: i64);
/// }
///
/// async fn redeem(locks: &LockManager, ledger: &impl Ledger, account: u64) -> Result<(), LockError> {
///     locks.lock(format!("account:{account}")).run(async |_| ledger.book(account, -10)).await
/// }
///
/// /// Instead of the database, in tests.
/// struct TestLedger;
///
/// impl Ledger for TestLedger {
///     fn book(&self, account: u64, _points: i64) {
///         assert_held_here(format!("account:{account}"));
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// redeem(&LockManager::in_memory(), &TestLedger, 7).await.unwrap();
/// # }
/// ```
///
/// # Panics
/// If the key is not held.
#[track_caller]
pub fn assert_held_here(key: impl AsRef<str>) {
    let key = key.as_ref();
    if scope::is_held_here(key) {
        return;
    }
    let held = scope::held_here();
    match held.as_slice() {
        [] => panic!("`{key}` is not held here, and no other lock is: no section is around this code"),
        held => panic!("`{key}` is not held here; held are `{}`", held.join("`, `")),
    }
}
