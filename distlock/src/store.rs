//! Stores of one's own: what keeps the locks, if it is not one of those that come with this crate.
//!
//! A [`LockStore`] takes, keeps and gives back a key by owner and ttl. Everything else is done for it: the queue of
//! the process's own tasks and threads and the hand-off among them, waiting and its limits, renewal, deadlines and
//! their check without I/O, the loss of a lease, re-entrance, cancellation at any await, several keys at once,
//! releases that are repeated until they are confirmed, the end of the manager, forks, tracing. A store is given to
//! the manager's builder:
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
//! It depends on the crate `distlock-store`, which is all of this module but [`register`], and on nothing else of the
//! project: so does every store with a server that comes with this crate. Test it with the suite that all of them
//! pass: module `testing`, feature `testing`.
//!
//! This module is young: before 1.0 a minor release may change it. Types grow without that where they can.

pub use crate::manager::register;
pub use distlock_store::{
    Abilities, Ability, Acquire, AcquireReply, Asking, Busy, EarlierCommands, Fencing, Finding, Grant,
    Heartbeat, KEPT, KeyRules, LATE_COMMANDS, LONGEST_VALUE, LeaseRule, List, LockStore, NOTIFIED_WITHIN,
    Notifications, ObservedLeases, Owner, OwnerDetails, Publish, Queue, Release, ReleaseReply, Renew,
    RenewReply, Replace, ReplaceReply, ServerClock, Severity, StoreError, StoreEvents, StoredLock,
    StoredPage, Waiting, kit,
};
