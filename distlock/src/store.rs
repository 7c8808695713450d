//! Your own store: keep the locks in a system that this crate does not support.
//!
//! A [`LockStore`] acquires, renews and releases a key for an owner and a ttl. The engine does the rest: the queue of
//! the tasks and threads of this process and the hand-off among them, waits and their limits, renewal, deadlines and
//! their check without I/O, lost leases, re-entrance, cancellation at any await, several keys at once, releases that
//! are retried until they are confirmed, shutdown, forks, tracing. Pass the store to the manager's builder:
//!
//! ```no_run
//! # use distlock::store::*;
//! # #[derive(Debug)] struct MyStore;
//! # impl LockStore for MyStore {
//! #     fn describe(&self) -> String { "mine".into() }
//! #     async fn acquire(&self, _: &Acquire) -> Result<AcquireReply, StoreError> {
//! #         Ok(AcquireReply::Acquired { fence: None })
//! #     }
//! #     async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> { Ok(RenewReply::Renewed) }
//! #     async fn release(&self, _: &Release) -> Result<ReleaseReply, StoreError> { Ok(ReleaseReply::Released) }
//! #     async fn inspect(&self, _: &str) -> Result<Option<StoredLock>, StoreError> { Ok(None) }
//! #     async fn force_release(&self, _: &str) -> Result<bool, StoreError> { Ok(false) }
//! # }
//! # async fn doc() -> Result<(), distlock::LockError> {
//! let manager = distlock::LockManager::builder().store(MyStore).connect().await?;
//! let guard = manager.lock("order:42").acquire().await?;
//! # guard.release().await }
//! ```
//!
//! A store depends on the crate `distlock-store` (everything in this module except [`register`]), and on no other crate
//! of the project. The stores with a server that come with this crate do the same. Test your store with the suite that
//! they all pass: module `testing`, feature `testing`.
//!
//! This module is young: before 1.0, a minor release may change it. Where possible, types are `#[non_exhaustive]`, so
//! they can grow without a breaking change.

pub use crate::manager::register;
pub use distlock_store::{
    Abilities, Ability, Acquire, AcquireReply, Asking, Busy, EarlierCommands, Fencing, Finding, Grant,
    Heartbeat, KEPT, KeyRules, LATE_COMMANDS, LONGEST_VALUE, LeaseRule, List, LockStore, NOTIFIED_WITHIN,
    Notifications, ObservedLeases, Owner, OwnerDetails, Publish, Queue, Release, ReleaseReply, Renew,
    RenewReply, Replace, ReplaceReply, ServerClock, Severity, StoreError, StoreEvents, StoredLock,
    StoredPage, Waiting, kit,
};
