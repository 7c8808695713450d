//! Tools for tests of programs that use this crate, and for tests of stores. Feature `testing`, for
//! `[dev-dependencies]`:
//!
//! ```toml
//! distlock = { version = "0.1", features = ["testing"] }
//! ```
//!
//! A test needs no server: [`LockManager::in_memory`](crate::LockManager::in_memory) creates separate locks, and
//! [`with_manager`](crate::with_manager) passes them to annotated functions, so tests can run in parallel.
//!
//! | to test | use |
//! |---|---|
//! | the reaction to a lock that is busy, unavailable or lost | [`fail_next`], [`lose`] |
//! | that code runs under a lock | [`assert_held_here`] |
//! | that sections do not overlap, and how many there were | [`Sections`] |
//! | two processes | [`TestStore::process`] |
//! | long waits and leases, without real time | [`TestStore::on_paused_time`] |
//! | that a future may be dropped wherever it waits | [`drop_after`] |
//! | an event on another thread | [`eventually`] |
//! | your own store | [`contract`], [`conformance`] |
//!
//! ```
//! use distlock::testing::{Fault, assert_held_here, fail_next};
//! use distlock::{LockError, LockManager, distributed_lock, with_manager};
//!
//! #[distributed_lock(key = "order:<id>", wait = "3s")]
//! async fn pay(id: u64) -> Result<&'static str, LockError> {
//!     assert_held_here(format!("order:{id}"));
//!     Ok("paid")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let manager = LockManager::in_memory();
//! fail_next(&manager, "order:7", Fault::Busy); // at once, without the wait of 3 s
//! fail_next(&manager, "order:7", Fault::Lost);
//! with_manager(manager, async {
//!     assert!(pay(7).await.unwrap_err().is_busy());
//!     assert!(pay(7).await.unwrap_err().is_lost());
//!     assert_eq!(pay(7).await.unwrap(), "paid");
//! })
//! .await;
//! # }
//! ```

mod any_store;
pub mod conformance;
pub mod contract;
mod drop_after;
mod eventually;
mod faults;
mod held_here;
mod sections;
mod store;

pub use crate::fault::Fault;
pub use crate::observe::counts::SectionCount;
pub use drop_after::drop_after;
pub use eventually::{BOUND, eventually};
pub use faults::{fail_next, lose, planned};
pub use held_here::assert_held_here;
pub use sections::Sections;
pub use store::TestStore;

/// Managers that `make` creates have no observers, as if this crate were built without them, to measure their cost.
#[doc(hidden)]
pub fn unobserved<T>(make: impl FnOnce() -> T) -> T {
    crate::observe::counts::unobserved(make)
}
