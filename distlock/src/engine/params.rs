//! The durations and limits of the engine's rules.

use std::time::Duration;

/// The longest claim: how long a grant lives that its receiver has not confirmed yet.
pub(crate) const LONGEST_CLAIM: Duration = Duration::from_secs(3);
/// How long a process may hand a lock on among its own tasks without asking the server.
pub(crate) const LOCAL_CHAIN_TIME: Duration = Duration::from_millis(50);
/// How long readers may join a lease of their process if the key was found busy a moment ago: a writer of another
/// process that waits for its end also keeps all later readers of other processes waiting.
pub(crate) const CONTENDED_JOIN_TIME: Duration = Duration::from_millis(5);
/// How much earlier than it may the process ends the time of a lease without a section: its timer may be late
/// by 2 ms, and the release takes its way. A quarter of short times.
pub(crate) const LINGER_ENDS_EARLY: Duration = Duration::from_millis(4);
/// An acquire command without a reply is sent again after this time (it is idempotent).
pub(crate) const ACQUIRE_RESEND_AFTER: Duration = Duration::from_secs(1);
