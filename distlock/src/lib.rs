//! Distributed locks as an annotation: critical sections across tasks, processes and machines.
//!
//! ```
//! use distlock::{LockError, LockManager, distributed_lock};
//!
//! #[distributed_lock(key = "order:<user_id>", ttl = "10s", wait = "3s")]
//! async fn place_order(user_id: u64, cart: Vec<String>) -> Result<usize, LockError> {
//!     Ok(cart.len()) // one at a time per user, across all processes
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), LockError> {
//!     let manager = LockManager::in_memory(); // or connect("redis://127.0.0.1/").await?
//!     distlock::init(manager).expect("called once");
//!     assert_eq!(place_order(42, vec!["tea".to_owned()]).await?, 1);
//!     Ok(())
//! }
//! ```
//!
//! The attribute's page, [`distributed_lock`](macro@distributed_lock), lists all options, each with an example.
//!
//! # Without the attribute
//! ```
//! use std::time::Duration;
//! use distlock::LockManager;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), distlock::LockError> {
//! # let manager = LockManager::in_memory();
//! // A section: its body is stopped if the lock is lost, and the lock is released at its end.
//! let sum = manager.lock("order:42").run(async |_held| 40 + 2).await?;
//!
//! // Or a guard.
//! let guard = manager.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
//! guard.check()?; // without I/O: fails once the lease can no longer be relied on
//! guard.release().await?;
//! # assert_eq!(sum, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//! | you want | look at |
//! |---|---|
//! | to annotate a function | [`distributed_lock`](macro@distributed_lock) |
//! | to connect to Redis, PostgreSQL, etcd, ZooKeeper, MySQL, MariaDB, Memcached, SQLite | [`LockManager::connect`], [`LockManagerBuilder`] |
//! | a mutex, a read-write lock, a semaphore, several keys | [`LockManager::lock`], [`LockRequest::shared`], [`LockRequest::max_holders`], [`LockManager::lock_all`] |
//! | to keep late writes out of a database | [`FencingToken`] |
//! | one leader among many processes | [`leader`] |
//! | what an error means, and which HTTP status fits | [`LockError`] |
//! | to know who holds a lock | [`LockManager::inspect`], [`LockManager::list`], [`LockManager::events`] |
//! | locks in a program without async | [`blocking`] |
//! | to test a program | [`LockManager::in_memory`], [`with_manager`], feature `testing` |
//! | to write your own store | [`store`] |
//!
//! The [book](https://github.com/distlock/distlock/blob/main/docs/book/src/SUMMARY.md) has a page for each task: web
//! services, jobs and leaders, databases, tests, operation. The
//! [README](https://github.com/distlock/distlock#readme) compares the stores.
//!
//! # Features
//! | feature | default | gives |
//! |---|---|---|
//! | `redis` | yes | `redis://`, `valkey://`, Sentinel, Cluster, servers that share the keys, and quorum (Redlock) |
//! | `tracing` | yes | spans and events for the crate `tracing` |
//! | `tls` | | `rediss://` and the other URLs of Redis with TLS |
//! | `postgres`, `etcd`, `zookeeper`, `mysql`, `memcached`, `sqlite` | | the URLs of the same name (`mysql`: also `mariadb://`); TLS is included where the store has it. `etcd` needs `protoc` for the build |
//! | `sqlx-postgres`, `sqlx-mysql`, `sqlx-sqlite`, `tokio-postgres`, `deadpool-postgres`, `mysql-async`, `rusqlite`, `diesel-postgres`, `diesel-sqlite`, `diesel-async-postgres`, `sea-orm-postgres`, `sea-orm-mysql`, `sea-orm-sqlite` | | transactions that check the fencing token, with this library: [`fence`] |
//! | `r2d2` | | such transactions on a pool of `r2d2`, for functions that are not `async` |
//! | `once` | | stored results for requests that are repeated: the option `once`, see [`fence`] |
//! | `metrics` | | counters, gauges and histograms for the crate `metrics` |
//! | `axum` | | [`LockError`] as a response, and a layer |
//! | `testing` | | failures that a test orders, and the test suite for stores |
//!
//! A library that only annotates functions sets `default-features = false`. Then only `memory:` and [your own
//! stores](store) are built, and the program that uses the library chooses the store.
//!
//! # What it guarantees
//! - At most one holder per key, as long as the server keeps its data (no eviction, no restart without persistence, no
//!   fail-over that loses writes) and its wall clock neither jumps forward nor runs more than 1 % faster than the
//!   client's clock. If the server cannot promise this, [fencing tokens](FencingToken) still order the writes.
//! - Every lease expires: a crashed holder delays others by at most its ttl. On etcd and ZooKeeper, the session's
//!   time-out decides (`session_timeout`; if it is not set, the manager's `default_ttl`). On Memcached, the delay is up
//!   to 13 s longer.
//! - The holder finds out first: [`Guard::is_held`] returns false before the lease expires on the server, without I/O.
//!   On Linux, Android, macOS and iOS, this also holds if the machine was suspended. There are two
//!   exceptions. A virtual machine that is paused from outside or restored from a snapshot cannot notice the pause,
//!   because its clocks are paused, too. If the lock is released by force, if the server loses it, or if the server's
//!   clock is set forward, the holder notices the loss at its next renewal.
//! - [`LockRequest::run`] and the attribute stop an async body at its next await point when the lease is lost.
//! - The body never starts without the lock: busy, unreachable, misconfigured are errors.
//! - Dropping anything at any time is safe.
//!
//! # What it does not
//! A process that is not scheduled cannot react to a loss. A body that does not await is not interrupted. Work that was
//! done before a loss is not undone. Let the database check the fencing token.
//!
//! For a process that ends or forks, see [`LockManager`].

// The documentation's labels of features.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Code that only one store, one observer, or the test kit uses is not dead: the lints also run with all of them.
#![cfg_attr(
    not(all(feature = "redis", feature = "tls", feature = "tracing", feature = "testing")),
    allow(dead_code, unused_imports)
)]
// The attribute's expansion names the crate from outside, also in the rules of the module `testing`.
#[cfg(feature = "testing")]
extern crate self as distlock;

// Before the others, so that the documentation of `LockManager` and of its builder begins with their own methods.
mod manager;

#[doc(hidden)]
#[path = "private/mod.rs"]
pub mod __private;
#[cfg(feature = "axum")]
pub mod axum;
mod backend;
pub mod blocking;
mod collection;
mod contained;
mod deadlock;
mod driver;
mod engine;
mod error;
#[cfg(feature = "testing")]
mod fault;
#[cfg(all(any(test, fuzzing), feature = "redis"))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod held;
mod key;
pub mod leader;
mod lease_cell;
mod listeners;
mod lock_key;
mod manager_handle;
#[cfg(feature = "metrics")]
#[doc = include_str!("metrics.md")]
pub mod metrics {}
mod observe;
mod outage;
mod process;
mod protocol;
mod release;
mod reply_batch;
mod request;
mod retry;
mod scope;
mod section;
#[cfg(test)]
mod simulation;
pub mod store;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod ticket;
mod ttl;

pub use deadlock::{Deadlock, DeadlockMember};
#[doc(inline)]
pub use distlock_fence as fence;
#[doc = include_str!("attribute.md")]
pub use distlock_macros::distributed_lock;
#[doc = include_str!("key_macro.md")]
pub use distlock_macros::key;
pub use distlock_store::kit::connection::{Credentials, TlsOptions};
pub use distlock_store::{Escaped, FencingToken, LockKind};
pub use distlock_store::{Finding, Severity};
pub use error::{LockError, LostReason};
pub use guard::Guard;
pub use held::Held;
pub use key::{IntoLockKey, LockKey};
pub use manager::{
    ForcedRelease, Health, LockClient, LockEntry, LockHolder, LockInfo, LockManager, LockManagerBuilder,
    LockWaiter, Locks, ShutdownReport, init, with_manager,
};
pub use observe::{Events, LockEvent};
pub use release::Release;
pub use request::LockRequest;
pub use retry::Retry;
pub use scope::is_held_here;
pub use ticket::Ticket;
