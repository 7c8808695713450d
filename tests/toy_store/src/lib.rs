//! A store in a separate crate: the complete example of `distlock::store`, and the proof that the public interface is
//! enough for its contract.
//!
//! [`ToyServer`] keeps locks in memory, and uses lines of text over TCP. A program passes [`ToyStore`] to
//! `LockManager::builder().store(..)`. It has all abilities of a store: all kinds of locks, fencing tokens, `min_hold`,
//! and notifications of waiters. With [`ToyStore::with_queue`], it has a queue, and a release grants the lock to the
//! first waiter. With [`ToyStore::with_sessions`], leases end with the process's session instead of a ttl.
//!
//! One line is one request: its number, the server's time after which it is too late, the operation, and arguments.
//! Keys are in hexadecimal. The reply begins with the same number. Instead of a ttl, an acquisition may name the client
//! whose session ends the lease. An owner that queues adds the length of a claim and the life of its place. Replies
//! have the order of the requests. A line that begins with `!` names a key that may be free. A line that begins with
//! `+` reports a grant: the key, the owner, the server's time, and the first fencing token. The first line of a
//! connection is `@` and the server's time.
//!
//! [`Mistake`] serves the proof that the suites find the mistakes of stores.

mod line;
mod mistake;
mod server;
mod store;
mod table;

pub use mistake::Mistake;
pub use server::ToyServer;
pub use store::ToyStore;
