//! A store of locks in a crate of its own: the worked example of `distlock::store`, and the proof that its contract can
//! be kept without any door that is not public.
//!
//! [`ToyServer`] keeps locks in memory and talks lines of text over TCP; [`ToyStore`] is what a program gives to
//! `LockManager::builder().store(..)`. It can do everything that can be asked of a store: all kinds of locks, fencing
//! tokens, `min_hold`; waiters are notified. With [`ToyStore::with_queue`] it keeps a queue, and a release grants the
//! lock to the first in it. With [`ToyStore::with_sessions`] leases end with the process's session instead of a ttl.
//!
//! One line is one request: its number, the server's time after which it is too late, what to do, and arguments, keys
//! in hexadecimal. The answer begins with the same number. In place of a ttl an acquisition may name the client whose
//! session the lease is to end with; an owner that wants to wait in the queue adds the length of a claim and the life
//! of its place. Requests are answered in the order in which they came. A line that begins with `!` names a key that
//! may be free, one with `+` a key, the owner that it was granted to, the server's time, and the first of its fencing
//! tokens. The first line of a connection is `@` and the server's time.
//!
//! [`Mistake`] is for the proof that the suites find what stores do wrong.

mod line;
mod mistake;
mod server;
mod store;
mod table;

pub use mistake::Mistake;
pub use server::ToyServer;
pub use store::ToyStore;
