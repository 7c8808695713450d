//! The limits that the contract names.

use std::time::Duration;

/// 5 s. If a command was given up, or its future has ended with [`StoreError::unknown`](super::StoreError::unknown),
/// the command is executed within this time, or never. The manager also gives a command up after this time.
///
/// The time-outs of a store must be shorter. Let the compiler check this:
///
/// ```
/// use std::time::Duration;
///
/// const COMMAND: Duration = Duration::from_millis(4_500);
/// const _: () = assert!(COMMAND.as_nanos() < distlock::store::LATE_COMMANDS.as_nanos());
/// ```
pub const LATE_COMMANDS: Duration = Duration::from_secs(5);

/// 2 s. A store that declares [`Waiting::Notified`](super::Waiting::Notified) or [`Queued`](super::Waiting::Queued)
/// reports a release within this time, and usually much sooner. Without a report, a waiter asks the store after this
/// time.
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
