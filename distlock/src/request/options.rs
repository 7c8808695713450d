//! The options of a request.

use std::borrow::Cow;
use std::time::Duration;

use super::{Lingering, LockRequest, Wait};
use crate::backend::LockKind;
use crate::engine::Renewal;
use crate::release::Release;
use crate::retry::Retry;

impl LockRequest {
    /// The lease time: how long others wait after this process crashed. Renewed in the background while the
    /// lock is held. From 10 ms to 365 days, cut to whole milliseconds; the manager's default is 30 s.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("k").ttl(Duration::from_secs(10)).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias(
        "lease",
        "lease_time",
        "leaseTime",
        "expire",
        "expiry",
        "expiration",
        "PX",
        "lock_at_most_for"
    ))]
    pub fn ttl(self, ttl: Duration) -> Self {
        LockRequest { ttl: Some(ttl), ..self }
    }

    /// How long to wait for the lock before [`LockError::Busy`](crate::LockError::Busy). Zero is one attempt.
    /// The manager's default is 10 s.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("k").wait(Duration::from_secs(3)).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias(
        "timeout",
        "wait_time",
        "waitTime",
        "acquire_timeout",
        "acquireTimeout",
        "blocking_timeout"
    ))]
    pub fn wait(self, wait: Duration) -> Self {
        LockRequest { wait: Wait::For(wait), ..self }
    }

    /// One attempt, without waiting.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let _held = manager.lock("k").acquire().await?;
    /// assert!(manager.lock("k").no_wait().acquire().await.unwrap_err().is_busy());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("tryLock", "try_lock", "NX", "non-blocking"))]
    pub fn no_wait(self) -> Self {
        self.wait(Duration::ZERO)
    }

    /// Waits without a time limit. (A server that cannot be reached is an error all the same.)
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("k").wait_forever().acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("blocking", "lockInterruptibly"))]
    pub fn wait_forever(self) -> Self {
        LockRequest { wait: Wait::Forever, ..self }
    }

    /// Instead of waiting in the queue, tries again a number of times.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("k").retry(distlock::Retry::times(3)).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("retry_count", "retryCount", "retryDelay", "retryJitter", "backoff", "WithTries"))]
    pub fn retry(self, retry: Retry) -> Self {
        LockRequest { wait: Wait::Retry(retry), ..self }
    }

    /// Does not renew: the ttl is a hard limit. For several keys it counts from the moment at which all of
    /// them are acquired; until then they are renewed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("k").ttl(Duration::from_secs(5)).no_renew().acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("watchdog", "auto_renew", "auto_extend", "heartbeat", "automaticExtensionThreshold"))]
    pub fn no_renew(self) -> Self {
        LockRequest { renewal: Renewal::Never, ..self }
    }

    /// The longest time for which the lock is held, from acquisition (of several keys, of the last one). Then
    /// it is lost ([`LostReason::MaxHold`](crate::LostReason::MaxHold)).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("import").max_hold(Duration::from_secs(600)).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("lock_at_most_for", "lockAtMostFor", "deadline"))]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        LockRequest { max_hold: Some(max_hold), ..self }
    }

    /// Excludes others for at least this long from acquisition (of several keys, of the last one), even if
    /// the lock is released earlier, or lost to [`max_hold`](LockRequest::max_hold) or a shutdown. For
    /// scheduled jobs and throttles. It ends early if the key is taken away on the server, and with the lease
    /// if the process dies or cannot reach the server. Without renewal it may not be longer than the ttl.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let once_per_second = manager.lock("tick").min_hold(Duration::from_secs(1)).acquire().await?;
    /// once_per_second.release().await?;
    /// assert!(manager.lock("tick").no_wait().acquire().await.unwrap_err().is_busy());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("lock_at_least_for", "lockAtLeastFor", "throttle", "debounce", "cron"))]
    pub fn min_hold(self, min_hold: Duration) -> Self {
        LockRequest { min_hold: Some(min_hold), ..self }
    }

    /// The most requests of this process that may wait for the key. If as many wait already, this request ends
    /// as [`LockError::Busy`](crate::LockError::Busy) at once. Only the requests of this process count,
    /// including the one whose command is under way, but not the holder; other processes have limits of their
    /// own. At least one; the manager's default is no limit. For very popular keys, where it is better to turn
    /// requests away than to let them wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("product:1").max_waiters(1000).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("queue limit", "load shedding"))]
    pub fn max_waiters(self, most: u32) -> Self {
        LockRequest { max_waiters: Some(most), ..self }
    }

    /// Asks for a [fencing token](crate::FencingToken).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("account:7").fenced().acquire().await?;
    /// assert!(guard.fencing_token().is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("fencing", "fence", "getFencedLock"))]
    pub fn fenced(self) -> Self {
        LockRequest { fenced: true, ..self }
    }

    /// A read lock: any number of shared holders, or one exclusive holder. A later reader does not pass a
    /// writer that waits. Has no fencing token.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let one = manager.lock("catalogue").shared().acquire().await?;
    /// let two = manager.lock("catalogue").shared().acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("rwlock", "read lock", "readLock", "ReadWriteLock", "getReadWriteLock"))]
    pub fn shared(self) -> Self {
        LockRequest { kind: LockKind::Shared, ..self }
    }

    /// A counting semaphore: at most `limit` holders at a time. The limit must be the same wherever the key is
    /// used ([`LockError::WrongKind`](crate::LockError::WrongKind) otherwise), and the key may not be used for
    /// other kinds of locks. Has no fencing token.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let export = manager.lock("exports").max_holders(3).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("semaphore", "permits", "getSemaphore", "PermitExpirableSemaphore", "limit"))]
    pub fn max_holders(self, limit: u32) -> Self {
        LockRequest { kind: LockKind::Limited { max_holders: limit }, ..self }
    }

    /// Inside a section of this task that holds the same key of the same manager: succeeds without acquiring,
    /// instead of failing with [`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock). The outer section
    /// releases the lock. If the outer section loses the lock, the inner one has lost it, too.
    ///
    /// The section must hold the key as the same kind of lock, or exclusively for a shared one. A shared lock cannot be
    /// made an exclusive one: that stays `WouldDeadlock`. Other kinds inside each other are
    /// [`LockError::WrongKind`](crate::LockError::WrongKind), as they are for everybody else. Several re-entrant calls
    /// at the same time, as in a `join!` inside the section, do not exclude each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let nested = manager.clone();
    /// manager.lock("tree").run(async |_held| nested.lock("tree").reentrant().acquire().await).await??;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("recursive", "ReentrantLock"))]
    pub fn reentrant(self) -> Self {
        LockRequest { reentrant: true, ..self }
    }

    /// Whether a section ([`run`](LockRequest::run), or an annotated function) waits for the server's reply to its
    /// release. The manager's default is [`Release::Confirmed`].
    ///
    /// With [`Release::Background`] the section returns as soon as the release is on its way, which saves a round
    /// trip. What that costs:
    ///
    /// - When the section returns, another process may still find the lock busy for a moment. This process does not:
    ///   its own release is ahead of whatever it asks for afterwards.
    /// - A release that fails is repeated in the background, as always, but only the log tells.
    /// - A loss that only the reply would have shown is not returned by a section on a thread, whose body cannot be
    ///   stopped. A loss that is known when the body ends still is.
    /// - A process that ends at once may not have sent it: end with [`shutdown`](crate::LockManager::shutdown),
    ///   which waits.
    ///
    /// At most 1024 releases of a manager are on their way like this; further sections wait for theirs. No effect on
    /// [`Guard::release`](crate::Guard::release), which always waits, nor on a store that replies at once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use distlock::Release;
    ///
    /// manager.lock("cart:7").release(Release::Background).run(async |_held| { /* the work */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(self, release: Release) -> Self {
        LockRequest { release: Some(release), ..self }
    }

    /// After the last release in this process, the process keeps the lock for up to this long. A request of the same
    /// process that comes in that time enters without a round trip; other processes find the lock busy, and get it as
    /// soon as they ask. For locks that one process uses many times in a row. From 1 ms to 10 s; tens of milliseconds
    /// are enough for most uses. `None`: it is released at once, whatever the manager's default is.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # async fn doc(manager: distlock::LockManager) -> Result<(), distlock::LockError> {
    /// for line in 0..1_000 {
    ///     // The first asks the server, most of the others do not.
    ///     manager.lock("import:7").linger(Duration::from_millis(50)).run(async |_held| line).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - **The time** counts from the first release since the server gave the lock. When it is over, the next release
    ///   goes to the server, even if sections follow each other without a pause, and the section after it asks again.
    ///   Now and then that one waits for a [gap](crate::LockManagerBuilder::fairness_gap), so that clients that only
    ///   poll have their turn.
    /// - **Others** that wait for the lock tell the process at once, through its connection for pushes. If the push is
    ///   lost, they get the lock when the time is over. So do clients that do not know this option: earlier versions
    ///   of this crate, clients that poll, and every process on a store that has no such pushes (all but Redis and
    ///   Valkey). One that only tries ([`try_acquire`](LockRequest::try_acquire)) is told that the lock is busy
    ///   although nobody uses it; its next attempt finds it free. After another process has asked, the lock is
    ///   released at once for two seconds. So the option is of no use for a lock that several processes want all the
    ///   time.
    /// - **Every section** has a fencing token of its own, its own [`max_hold`](LockRequest::max_hold), and the lock
    ///   is only entered while its lease certainly lasts. A lock that is lost while nobody here uses it is not
    ///   reported; the next request asks the server. But a section may begin in this time without knowing that
    ///   somebody has taken the lock away by force, or that a fail-over has lost it: the fencing token tells.
    /// - **After a crash**, others wait for the ttl even if no section was running. A process that ends releases what
    ///   it keeps if its manager is dropped or [shut down](crate::LockManager::shutdown): a manager in a `static`
    ///   must be shut down.
    /// - **A release** that leaves the lock with the process sends nothing. So it cannot find out that the lock was
    ///   lost, as the server's reply would tell.
    ///
    /// Only for an exclusive lock of one key, without [`min_hold`](LockRequest::min_hold), and not on a quorum of
    /// servers: otherwise the request fails with [`LockError::InvalidOptions`](crate::LockError::InvalidOptions).
    #[doc(alias("keep", "sticky", "cache"))]
    pub fn linger(self, linger: impl Into<Option<Duration>>) -> Self {
        LockRequest { linger: linger.into().map_or(Lingering::Never, Lingering::For), ..self }
    }

    /// A name for traces, of bounded cardinality (no user ids). The attribute uses its key template.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock(format!("order:{}", 42)).label("order").acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("name", "metric label"))]
    pub fn label(self, label: impl Into<Cow<'static, str>>) -> Self {
        LockRequest { label: label.into(), ..self }
    }

    /// Warns in the log, and in the stream of [`events`](crate::LockManager::events), when the request waits for
    /// longer than this; then after twice that time, and so on. Up to a second late. The manager's default is
    /// never.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("k").warn_wait(Duration::from_secs(5)).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn warn_wait(self, limit: Duration) -> Self {
        LockRequest { warn_wait: Some(limit), ..self }
    }

    /// Warns in the same way when the lock is held for longer than this, as by a section that hangs.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("k").warn_hold(Duration::from_secs(60)).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn warn_hold(self, limit: Duration) -> Self {
        LockRequest { warn_hold: Some(limit), ..self }
    }
}
