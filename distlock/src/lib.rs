//! Distributed locks as an annotation: critical sections across processes and machines.
//!
//! ```
//! use std::time::Duration;
//! use distlock::LockManager;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), distlock::LockError> {
//! let manager = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/").await?
//! let guard = manager.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
//! assert!(guard.is_held());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! - At most one holder per key, as long as the server keeps its data (no eviction, no restart without
//!   persistence, no fail-over that loses writes) and its wall clock neither jumps forward nor runs more than
//!   1 % fast against ours. Where that cannot be promised, [fencing tokens](FencingToken) still order the
//!   writes.
//! - Every lease expires: a crashed holder delays others by at most its ttl.
//! - A holder can know first: [`Guard::is_held`] turns false before the server's expiry, without I/O, also when
//!   the machine was suspended in between. (A virtual machine that is paused from outside, or restored from a
//!   snapshot, is another matter: its clocks stand still, and only the fencing token tells.)
//! - [`LockRequest::run`] and the attribute stop an async body at its next await point when the lease is lost.
//! - Nothing runs unlocked: busy, unreachable, misconfigured are errors.
//! - Dropping anything at any time is safe.
//!
//! # What it does not
//! A process that is not scheduled cannot act on a loss, a body that does not await is not interrupted, and
//! what was done before a loss is not undone: let the data check the fencing token.
//!
//! A process that ends or forks: see [`LockManager`].

// The documentation's labels of features.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The attribute's expansion names the crate from outside, also in the rules of the module `testing`.
#[cfg(feature = "testing")]
extern crate self as distlock;

#[doc(hidden)]
#[path = "private/mod.rs"]
pub mod __private;
#[cfg(feature = "axum")]
pub mod axum;
mod backend;
#[cfg(all(any(test, fuzzing), feature = "redis"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::backend::redis::fuzzing::*;
}
#[cfg(feature = "_remote")]
mod backoff;
pub mod blocking;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod certificates;
mod clock;
mod collection;
#[cfg(feature = "_remote")]
mod connection;
mod contained;
#[cfg(any(feature = "mysql", feature = "memcached"))]
mod contended;
mod driver;
mod engine;
mod error;
#[cfg(feature = "testing")]
mod fault;
mod finding;
mod guard;
mod held;
mod key;
pub mod leader;
mod lease_cell;
mod lock_key;
mod lock_kind;
mod manager;
mod manager_handle;
#[cfg(feature = "metrics")]
#[doc = include_str!("metrics.md")]
pub mod metrics {}
mod nearest;
mod observe;
mod outage;
mod process;
mod protocol;
mod release;
mod request;
mod retry;
mod scope;
mod section;
mod shrink;
#[cfg(test)]
mod simulation;
pub mod store;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod token;
mod ttl;
#[cfg(feature = "_remote")]
#[cfg_attr(
    not(all(feature = "redis", feature = "etcd", feature = "postgres", feature = "zookeeper")),
    allow(
        dead_code,
        unused_imports,
        reason = "each store uses a part of it; with all of them nothing is left over"
    )
)]
mod url;

#[cfg(feature = "_remote")]
pub use connection::Credentials;
#[cfg(any(feature = "tls", feature = "etcd"))]
pub use connection::TlsOptions;
#[doc = include_str!("attribute.md")]
pub use distlock_macros::distributed_lock;
#[doc = include_str!("key_macro.md")]
pub use distlock_macros::key;
pub use error::{LockError, LostReason};
pub use finding::{Finding, Severity};
pub use guard::Guard;
pub use held::Held;
pub use key::{IntoLockKey, LockKey};
pub use lock_kind::LockKind;
pub use manager::{
    Health, LockClient, LockEntry, LockHolder, LockInfo, LockManager, LockManagerBuilder, LockWaiter, Locks,
    ShutdownReport, init, with_manager,
};
pub use observe::{Events, LockEvent};
pub use release::Release;
pub use request::LockRequest;
pub use retry::Retry;
pub use scope::is_held_here;
pub use token::FencingToken;
