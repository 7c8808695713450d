//! All errors, in one type.

use std::error::Error;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::deadlock::Deadlock;
use crate::lock_key::LockKey;
use crate::protocol::{Escaping, KEPT, show_cause};
use distlock_fence::FenceError;
use distlock_store::LockKind;

/// Why an acquisition, a hold or a release failed.
///
/// `Display` contains the key. If keys carry personal data, do not log errors above debug level.
///
/// | error | HTTP status | why |
/// |---|---|---|
/// | [`Busy`](LockError::Busy) | 409 Conflict (or 429), `Retry-After` from [`retry_after`](LockError::retry_after) | another holder has the lock |
/// | [`Lost`](LockError::Lost) | 503 Service Unavailable, "outcome unknown" | the body was stopped somewhere in the middle |
/// | [`Unavailable`](LockError::Unavailable), [`Closed`](LockError::Closed) | 503 Service Unavailable | nothing was run; after a release, an extension, a hand-over, a forced release or a take-over without a reply: the outcome is unknown, and [`retry_after`](LockError::retry_after) is `None` |
/// | [`Fence`](LockError::Fence) | 422 for other arguments, 500 for a result that cannot be stored or read, else 503 | nothing was committed, unless the outcome is unknown |
/// | [`InvalidTicket`](LockError::InvalidTicket) | 409 Conflict | nothing was run |
/// | [`InvalidKey`](LockError::InvalidKey) | 400 Bad Request, if the key comes from the request | nothing was run |
/// | [`WrongKind`](LockError::WrongKind), [`WouldDeadlock`](LockError::WouldDeadlock), [`InvalidOptions`](LockError::InvalidOptions), [`NotInitialized`](LockError::NotInitialized) | 500 Internal Server Error | a mistake in the program |
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::LockError;
///
/// let _held = manager.lock("order:42").acquire().await?;
/// match manager.lock("order:42").no_wait().acquire().await {
///     Ok(_guard) => println!("it is ours"),
///     Err(LockError::Busy { holder, .. }) => println!("held by {holder:?}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum LockError {
    /// Another holder has the lock, and the wait (if any) is over. Nothing was run.
    #[doc(alias("LockNotAcquired", "contention", "conflict", "LockFailedException"))]
    #[non_exhaustive]
    Busy {
        /// The lock.
        key: LockKey,
        /// The holder's owner token, if it is known; ours read `dl1:<client>:<number>`.
        holder: Option<Arc<str>>,
        /// The remaining time of the holder's lease, if it is known. If the holder has crashed, others get the lock by
        /// then.
        remaining: Option<Duration>,
        /// How long the request waited. Zero for a single attempt.
        waited: Duration,
    },
    /// The lease ended while it was in use. What the body did before is not undone.
    #[doc(alias("lock expired", "lease expired"))]
    #[non_exhaustive]
    Lost {
        /// The lock.
        key: LockKey,
        /// Why it ended.
        reason: LostReason,
    },
    /// The server was unreachable, or refused the request. If an acquisition fails, nothing was run. The request
    /// retries for its `wait` or for [`unavailable_after`](crate::LockManagerBuilder::unavailable_after) (3 s),
    /// whichever is shorter. A single attempt takes at most 1 s. The request fails at once if the server refuses
    /// permanently (a wrong password, a missing permission).
    ///
    /// If a release, an extension, a hand-over or a forced release was not confirmed, the command may have been
    /// applied, and the work under the lock may be done. [`retry_after`](LockError::retry_after) is then `None`. It is
    /// also `None` if the server did not answer a [take-over](crate::LockManager::take_over): nothing was run, but the
    /// ticket may be used. Acquire the lock like any other.
    #[non_exhaustive]
    Unavailable {
        /// The lock. Empty if the error is about no particular lock, for example when connecting.
        key: LockKey,
        /// The cause. `Display` of the error contains its text, so [`Error::source`] returns the source of the cause.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The key is in use for something else: another kind of lock, another limit, or other data.
    #[non_exhaustive]
    WrongKind {
        /// The lock.
        key: LockKey,
        /// The kind of lock that was requested.
        wanted: Arc<str>,
        /// What the key contains.
        found: Arc<str>,
    },
    /// This task holds the lock already, or its holder waits for a lock of this task, so the wait could never end. The
    /// second case is an error only with [`break_deadlocks`](crate::LockManagerBuilder::break_deadlocks).
    ///
    /// A shared lock cannot become an exclusive one, even with [`reentrant`](crate::LockRequest::reentrant), because
    /// two tasks that tried it would wait for each other.
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock.
        key: LockKey,
        /// The kind of lock that this task holds.
        held: LockKind,
        /// The kind of lock that was requested.
        wanted: LockKind,
        /// The holders that wait for each other, if this request was ended because it was the youngest among them: see
        /// [`break_deadlocks`](crate::LockManagerBuilder::break_deadlocks). `None`: this task holds the lock.
        deadlock: Option<Arc<Deadlock>>,
    },
    /// The transaction of a function with the option `transaction` was not committed, or it is unknown whether it was.
    Fence(FenceError),
    /// The key is empty, too long, or reserved, or a part of it rendered to nothing.
    #[non_exhaustive]
    InvalidKey {
        /// What is wrong with the key.
        reason: Arc<str>,
    },
    /// The options are invalid, or the store does not support them.
    #[non_exhaustive]
    InvalidOptions {
        /// What is wrong with the options.
        reason: Arc<str>,
    },
    /// A [`Ticket`](crate::Ticket) that takes no lock over: it was used, its lease has ended, it belongs to another
    /// prefix or store, or its text is not that of a ticket. Nothing was changed.
    #[non_exhaustive]
    InvalidTicket {
        /// The reason, and the key.
        reason: Arc<str>,
    },
    /// An annotated function was called without a manager: see [`init`](crate::init) and
    /// [`with_manager`](crate::with_manager), which spawned tasks do not inherit.
    NotInitialized,
    /// The manager was shut down.
    Closed,
}

/// Why a lease ended before it was released.
///
/// ```
/// use distlock::{LockError, LostReason};
///
/// fn advice(error: &LockError) -> &'static str {
///     match error {
///         LockError::Lost { reason: LostReason::MaxHold, .. } => "the work took too long",
///         LockError::Lost { .. } => "look at the data before you try again",
///         _ => "nothing was done",
///     }
/// }
/// assert_eq!(advice(&LockError::lost("k")), "look at the data before you try again");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The ttl was over before a renewal succeeded (or renewal was off).
    Expired,
    /// The server replied that another holder has the lock, or that the lock was deleted.
    Taken,
    /// The hold reached its `max_hold`.
    MaxHold,
    /// The manager was shut down, and the grace period is over.
    Shutdown,
    /// The lock was released. A task that still has a handle, such as a spawned task, no longer holds the lock.
    Released,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::Expired => "its lease expired before a renewal was confirmed",
            LostReason::Taken => "the server reports that this process no longer holds it",
            LostReason::MaxHold => "it was held for as long as `max_hold` allows",
            LostReason::Shutdown => "the manager was shut down",
            LostReason::Released => "it was released, by the section that held it or by its guard",
        })
    }
}

/// The pause before a retry, where no manager sets one.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl LockError {
    /// Another holder has `key`. For testing how a program maps errors.
    ///
    /// ```
    /// assert!(distlock::LockError::busy("k").is_busy());
    /// ```
    pub fn busy(key: impl AsRef<str>) -> Self {
        LockError::Busy { key: unchecked(key), holder: None, remaining: None, waited: Duration::ZERO }
    }

    /// The lease of `key` expired. For testing how a program maps errors.
    ///
    /// ```
    /// assert!(distlock::LockError::lost("k").is_lost());
    /// ```
    pub fn lost(key: impl AsRef<str>) -> Self {
        LockError::Lost { key: unchecked(key), reason: LostReason::Expired }
    }

    /// The server that keeps `key` is unreachable. For testing how a program maps errors.
    ///
    /// ```
    /// let error = distlock::LockError::unavailable("k", "connection refused");
    /// assert_eq!(error.to_string(), "lock `k` is unavailable: connection refused");
    /// ```
    pub fn unavailable(key: impl AsRef<str>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        LockError::Unavailable { key: unchecked(key), source: Arc::from(source.into()) }
    }

    /// `what` describes the state of the lock after the command that was not confirmed.
    pub(crate) fn unconfirmed(
        key: LockKey,
        what: &'static str,
        source: Arc<dyn Error + Send + Sync>,
    ) -> Self {
        LockError::Unavailable { key, source: Arc::new(Unconfirmed { what, source }) }
    }

    /// Whether a command has failed that must not simply be repeated: it follows an acquisition, and the caller may
    /// have done its work by then, or it took a lock over, and the ticket may be used.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        matches!(self, LockError::Unavailable { source, .. } if source.is::<Unconfirmed>())
    }

    pub(crate) fn options(reason: impl Into<Arc<str>>) -> Self {
        LockError::InvalidOptions { reason: reason.into() }
    }

    pub(crate) fn ticket(reason: impl Into<Arc<str>>) -> Self {
        LockError::InvalidTicket { reason: reason.into() }
    }

    pub(crate) fn key(reason: impl Into<Arc<str>>) -> Self {
        LockError::InvalidKey { reason: reason.into() }
    }

    /// Another holder has the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let _held = manager.lock("k").acquire().await?;
    /// let error = manager.lock("k").no_wait().acquire().await.unwrap_err();
    /// assert!(error.is_busy());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, LockError::Busy { .. })
    }

    /// The lock was lost while it was in use.
    ///
    /// ```
    /// assert!(!distlock::LockError::busy("k").is_lost());
    /// ```
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LockError::Lost { .. })
    }

    /// The server was unreachable, or refused the request.
    ///
    /// ```
    /// assert!(!distlock::LockError::busy("k").is_unavailable());
    /// ```
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, LockError::Unavailable { .. })
    }

    /// How long to wait before a retry. `None`: a retry is useless, or the caller must check the data first. In whole
    /// seconds, like the HTTP header `Retry-After`.
    ///
    /// For a busy lock: the remaining time of the holder's lease, rounded up. (A live holder renews its lease, or
    /// releases the lock earlier.) If that time is unknown, or the server was unreachable for an acquisition: one
    /// second.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::in_memory();
    /// let holder = manager.lock("order:42").ttl(Duration::from_millis(4500)).acquire().await?;
    /// let busy = manager.lock("order:42").no_wait().acquire().await.unwrap_err();
    /// assert_eq!(busy.retry_after(), Some(Duration::from_secs(5)));
    /// # holder.release().await }
    /// ```
    #[doc(alias("Retry-After"))]
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            error if error.is_unconfirmed() => None,
            LockError::Busy { remaining: Some(remaining), .. } => {
                let seconds = remaining.as_secs().saturating_add(u64::from(remaining.subsec_nanos() > 0));
                Some(Duration::from_secs(seconds.max(1)))
            }
            LockError::Busy { .. }
            | LockError::Unavailable { .. }
            | LockError::Fence(
                FenceError::Stale { .. } | FenceError::NotHeld { .. } | FenceError::NotCommitted { .. },
            ) => Some(RETRY_AFTER),
            _ => None,
        }
    }
}

#[diagnostic::do_not_recommend]
impl From<FenceError> for LockError {
    fn from(error: FenceError) -> Self {
        LockError::Fence(error)
    }
}

/// A release, an extension, a hand-over, a forced release or a take-over that was not confirmed: the state of the lock,
/// and the reason.
#[derive(Debug)]
struct Unconfirmed {
    what: &'static str,
    source: Arc<dyn Error + Send + Sync>,
}

impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.source)
    }
}

impl Error for Unconfirmed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// An error may name any text; it is never a key to lock.
fn unchecked(key: impl AsRef<str>) -> LockKey {
    LockKey::from_shared(key.as_ref().into())
}

/// Text from outside, such as a key, a token or a server's message, cannot begin a new line: see
/// [`Escaped`](crate::Escaped).
impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut Escaping(f);
        match self {
            LockError::Busy { key, holder, waited, .. } => {
                write!(f, "lock `{key}` is busy")?;
                match holder.as_deref() {
                    Some(kept) if kept.starts_with(KEPT) => {
                        f.write_str(": it was released, and stays taken until its `min_hold` is over")?;
                    }
                    Some(holder) => write!(f, ", held by `{holder}`")?,
                    None => {}
                }
                if !waited.is_zero() {
                    write!(f, "; waited {waited:.1?}")?;
                }
                f.write_str("; try again later, or wait longer")
            }
            LockError::Lost { key, reason: reason @ LostReason::Released } => {
                write!(f, "lock `{key}` is no longer held: {reason}")
            }
            LockError::Lost { key, reason } => {
                write!(f, "lock `{key}` was lost while it was held: {reason}; what was done is not undone")
            }
            LockError::Unavailable { key, source } if key.as_str().is_empty() => {
                f.write_str("the lock server cannot be used: ")?;
                show_cause(&**source, f)
            }
            LockError::Unavailable { key, source } => {
                write!(f, "lock `{key}` is unavailable: ")?;
                show_cause(&**source, f)
            }
            LockError::WrongKind { key, wanted, found } => {
                write!(
                    f,
                    "`{key}` was requested as {wanted}, but is in use as {found}; use another key or prefix"
                )
            }
            LockError::WouldDeadlock { key, deadlock: Some(deadlock), .. } => {
                write!(
                    f,
                    "the request for lock `{key}` was ended, because it is the youngest of a deadlock: {deadlock}; \
                     acquire the locks in the same order everywhere, or all of them in one request"
                )
            }
            LockError::WouldDeadlock { key, held: LockKind::Shared, wanted: LockKind::Exclusive, .. } => write!(
                f,
                "lock `{key}` is held as a shared lock by this task, and requested as an exclusive one: other \
                 readers may hold it, too; let the outer call acquire the exclusive lock, or make this call \
                 after it"
            ),
            LockError::WouldDeadlock { key, .. } => {
                write!(f, "lock `{key}` is already held by this task: waiting for it would never end")
            }
            LockError::Fence(error) => write!(f, "{error}"),
            LockError::InvalidKey { reason } => write!(f, "invalid lock key: {reason}"),
            LockError::InvalidOptions { reason } => write!(f, "invalid lock options: {reason}"),
            LockError::InvalidTicket { reason } => write!(f, "invalid ticket: {reason}"),
            LockError::NotInitialized => f.write_str(
                "there is no lock manager: call `distlock::init(manager)` at start-up, write `manager = …` in \
                 the attribute (as in `manager = state.locks`), or wrap the call in `distlock::with_manager`; \
                 spawned tasks, such as the handlers of a server, do not inherit that one: carry it over with \
                 `LockManager::current()`",
            ),
            LockError::Closed => f.write_str("the lock manager was shut down"),
        }
    }
}

/// The name of the variant, and the text of `Display` in parentheses. `unwrap`, and a `main` that returns the error,
/// print it.
impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            LockError::Busy { .. } => "Busy",
            LockError::Lost { .. } => "Lost",
            LockError::Unavailable { .. } => "Unavailable",
            LockError::WrongKind { .. } => "WrongKind",
            LockError::WouldDeadlock { .. } => "WouldDeadlock",
            LockError::Fence(_) => "Fence",
            LockError::InvalidKey { .. } => "InvalidKey",
            LockError::InvalidOptions { .. } => "InvalidOptions",
            LockError::InvalidTicket { .. } => "InvalidTicket",
            LockError::NotInitialized => "NotInitialized",
            LockError::Closed => "Closed",
        };
        f.debug_tuple(name).field(&format_args!("{self}")).finish()
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LockError::Unavailable { source, .. } => source.source(),
            LockError::Fence(error) => error.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unwrap_prints_is_the_sentence() {
        let error = LockError::unavailable("k", "no answer within 3s");
        assert_eq!(format!("{error:?}"), format!("Unavailable({error})"));
    }

    #[test]
    fn a_key_that_is_kept_after_its_release_is_held_by_nobody() {
        let busy = |holder: &str| LockError::Busy {
            key: unchecked("k"),
            holder: Some(holder.into()),
            remaining: None,
            waited: Duration::ZERO,
        };
        assert!(busy("dl1:c:7").to_string().contains("is busy, held by `dl1:c:7`"));
        for kept in ["dl1:hold", "dl1:hold:dl1:c:7"] {
            let text = busy(kept).to_string();
            assert!(text.contains("until its `min_hold` is over") && !text.contains("held by"), "{text}");
        }
    }

    #[test]
    fn an_error_is_small() {
        assert!(size_of::<LockError>() <= 64, "{}", size_of::<LockError>());
        assert!(size_of::<Result<(), LockError>>() <= 64);
    }

    #[test]
    fn constructors_take_text_of_every_kind_and_keys() {
        let (text, key) = (String::from("k"), LockKey::new("k").unwrap());
        for error in
            [LockError::busy(&text), LockError::busy(&key), LockError::busy(text), LockError::busy(key)]
        {
            assert!(matches!(error, LockError::Busy { key, .. } if key.as_str() == "k"));
        }
    }

    #[test]
    fn constructors_and_predicates_agree() {
        assert!(LockError::busy("k").is_busy());
        assert!(LockError::lost("k").is_lost());
        let down = LockError::unavailable("k", "connection refused");
        assert!(down.is_unavailable());
        assert!(down.to_string().contains("connection refused"));
        assert!(down.source().is_none(), "its text stands in the error already");
        assert!(LockError::busy("k").retry_after().is_some());
        assert!(LockError::Closed.retry_after().is_none());
    }

    #[test]
    fn whole_seconds_after_the_holders_lease() {
        let after = |millis: u64| {
            let remaining = Some(Duration::from_millis(millis));
            let error =
                LockError::Busy { key: unchecked("k"), holder: None, remaining, waited: Duration::ZERO };
            error.retry_after().unwrap()
        };
        for (millis, seconds) in
            [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (29_999, 30), (u64::MAX, u64::MAX / 1000 + 1)]
        {
            assert_eq!(after(millis), Duration::from_secs(seconds), "{millis}");
        }
        assert_eq!(LockError::busy("k").retry_after(), Some(RETRY_AFTER), "nothing is known");
    }
}
