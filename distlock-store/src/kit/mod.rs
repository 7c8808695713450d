//! Tools for stores with a server: URLs, credentials, certificates, pauses between attempts, and hints about keys. The
//! stores of this project use them, and your own store can use them, too.
//!
//! This module is young: before 1.0, a minor release may change it.

pub mod backoff;
#[cfg(feature = "tls")]
pub mod certificates;
pub mod connection;
pub mod contended;
pub mod duration;
#[doc(hidden)]
pub mod link;
pub mod nearest;
pub mod remembered;
#[doc(hidden)]
pub mod scan;
pub mod shrink;
#[doc(hidden)]
pub mod sync;
#[cfg(feature = "tls")]
pub mod tls;
pub mod url;
