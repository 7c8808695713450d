//! The limits that the contract names.

use std::time::Duration;

/// A command that was given up, or whose future has ended with [`StoreError::unknown`](super::StoreError::unknown), is
/// carried out within this time, or never; and the manager gives a command up after this time: 5 s.
///
/// Time-outs of a store are shorter. Let the compiler say so:
///
/// ```
/// use std::time::Duration;
///
/// const COMMAND: Duration = Duration::from_millis(4_500);
/// const _: () = assert!(COMMAND.as_nanos() < distlock::store::LATE_COMMANDS.as_nanos());
/// ```
pub const LATE_COMMANDS: Duration = Duration::from_secs(5);

/// Within this time, usually much sooner, a store that declares [`Waiting::Notified`](super::Waiting::Notified) or
/// [`Queued`](super::Waiting::Queued) reports that a lock was released: 2 s. Later a waiter has asked by itself.
///
/// ```
/// assert!(distlock::store::NOTIFIED_WITHIN < distlock::store::LATE_COMMANDS);
/// ```
pub const NOTIFIED_WITHIN: Duration = Duration::from_secs(2);

/// The longest text that a holder [publishes](super::LockStore::publish), in bytes: 1 KiB.
///
/// ```
/// assert_eq!(distlock::store::LONGEST_VALUE, 1024);
/// ```
pub const LONGEST_VALUE: usize = 1024;
