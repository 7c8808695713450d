//! What every store with a server needs: its URL, who connects, certificates, pauses between attempts, and hints that
//! it remembers of keys. The stores of this project are built on it; a store of your own may be, too.
//!
//! Like the contract it is young: before 1.0 a minor release may change it.

pub mod backoff;
#[cfg(feature = "tls")]
pub mod certificates;
pub mod connection;
pub mod contended;
pub mod duration;
pub mod nearest;
pub mod remembered;
pub mod shrink;
#[doc(hidden)]
pub mod sync;
#[cfg(feature = "tls")]
pub mod tls;
pub mod url;
