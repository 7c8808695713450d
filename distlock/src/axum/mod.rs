//! For services on axum, and on tower. Feature `axum`.
//!
//! - [`LockError`](crate::LockError) is a response: a handler returns `Result<_, LockError>`, and the client gets a
//!   status and a problem document ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)).
//! - [`OneAtATime`] is a layer that passes one request at a time for each key to a service.
//! - [`LeaderHealth`] is a service for `/healthz`. It reports a leader whose body continues after its term is over.
//! - [`IdempotencyKey`] is the key of a request that a client may retry, and that must be done once.
//!
//! ```
//! use axum::Router;
//! use axum::extract::{Path, State};
//! use axum::routing::post;
//! use distlock::{LockError, LockManager, distributed_lock};
//!
//! #[derive(Clone)]
//! struct App { locks: LockManager }
//!
//! #[distributed_lock(key = "user:<user>", wait = "2s", manager = app.locks)]
//! async fn redeem(State(app): State<App>, Path(user): Path<u64>) -> Result<String, LockError> {
//!     Ok(format!("user {user} has one coupon less"))
//! }
//!
//! let app = App { locks: LockManager::in_memory() };
//! let router: Router = Router::new().route("/users/{user}/coupon", post(redeem)).with_state(app);
//! ```
//!
//! # The responses
//!
//! | error | status | `code` | `Retry-After` |
//! |---|---|---|---|
//! | [`Busy`](crate::LockError::Busy) | 409 | `busy` | [`retry_after`](crate::LockError::retry_after) |
//! | [`Lost`](crate::LockError::Lost) | 503 | `outcome_unknown` | none: the client has to check the data first |
//! | [`Unavailable`](crate::LockError::Unavailable) of an acquisition | 503 | `unavailable` | [`retry_after`](crate::LockError::retry_after) |
//! | [`Unavailable`](crate::LockError::Unavailable) of a release, an extension, a hand-over or a forced release | 503 | `outcome_unknown` | none: the client has to check the data first |
//! | [`Closed`](crate::LockError::Closed) | 503 | `closed` | none: this process shuts down |
//! | [`InvalidKey`](crate::LockError::InvalidKey) | 400 | `invalid_key` | none |
//! | [`InvalidTicket`](crate::LockError::InvalidTicket) | 409 | `invalid_ticket` | none |
//! | [`Fence`](crate::LockError::Fence), not committed | 503 | `not_committed` | one second |
//! | [`Fence`](crate::LockError::Fence), outcome unknown | 503 | `outcome_unknown` | none: the client has to check the data first |
//! | [`Fence`](crate::LockError::Fence), other arguments | 422 | `other_arguments` | none |
//! | all others | 500 | `internal` | none |
//!
//! ```text
//! HTTP/1.1 409 Conflict
//! content-type: application/problem+json
//! retry-after: 5
//!
//! {"type":"about:blank","title":"Conflict","status":409,"detail":"The resource is in use. Try again later.",
//!  "code":"busy","retry_after":5}
//! ```
//!
//! No response contains the key, the holder or the server, because they may be secret. For a layer that logs, the error
//! itself is an extension of the response (`response.extensions().get::<LockError>()`).
//!
//! # Shutting down
//! Shut down the server first, then the manager. Running requests then keep their locks, and their releases are
//! awaited.
//!
//! ```no_run
//! # use std::time::Duration;
//! # async fn doc(listener: tokio::net::TcpListener, router: axum::Router, locks: distlock::LockManager) {
//! let stop = async { tokio::signal::ctrl_c().await.expect("a handler for the signal") };
//! axum::serve(listener, router).with_graceful_shutdown(stop).await.expect("it serves");
//! let report = locks.shutdown(Duration::from_secs(5)).await;
//! assert_eq!(report.unconfirmed, 0, "the others need not wait for a ttl");
//! # }
//! ```

mod health;
mod idempotency;
mod layer;
mod response;

pub use health::LeaderHealth;
#[cfg(feature = "once")]
pub use idempotency::Replayed;
pub use idempotency::{IdempotencyKey, NoIdempotencyKey};
pub use layer::{Locked, OneAtATime};
