//! The options of a request.

use std::borrow::Cow;
use std::time::Duration;

use super::{Lingering, LockRequest, Wait};
use crate::backend::LockKind;
use crate::engine::Renewal;
use crate::release::Release;
use crate::retry::Retry;

impl LockRequest {
    /// The ttl of the lease: how long others wait after this process has crashed. The lease is renewed in the
    /// background while the lock is held. From 10 ms to 365 days, cut to whole milliseconds. The manager's default is
    /// 30 s.
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

    /// Waits without a time limit. (If the server is unreachable, the request still fails.)
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

    /// Retries a number of times instead of waiting in the queue.
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

    /// Does not renew the lease, so the ttl is a hard limit. For several keys, it counts from the moment when all of
    /// them are acquired. Until then, they are renewed.
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

    /// The longest time for which the lock is held. It counts from the acquisition, and for several keys from the last
    /// acquisition. When it is over, the lock is lost ([`LostReason::MaxHold`](crate::LostReason::MaxHold)).
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

    /// Excludes others for at least this time, even if the lock is released earlier, or lost to
    /// [`max_hold`](LockRequest::max_hold) or a shutdown. The time counts from the acquisition, and for several keys
    /// from the last acquisition. For scheduled jobs and throttles. It ends early if the key is removed on the server,
    /// and with the lease if the process dies or cannot reach the server. Without renewal, it must not be longer than
    /// the ttl.
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

    /// The largest number of requests of this process that may wait for the key. If this number is reached, the request
    /// fails with [`LockError::Busy`](crate::LockError::Busy) at once. Only requests of this process count, including a
    /// request that waits for the server's reply, but not the holder. Other processes have their own limits. At least
    /// one. The manager's default is no limit. For very popular keys, where a quick refusal is better than a wait.
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

    /// Requests a [fencing token](crate::FencingToken).
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

    /// A read lock: any number of shared holders, or one exclusive holder. A later reader does not overtake a writer
    /// that waits. A read lock has no fencing token.
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

    /// A counting semaphore: at most `limit` holders at a time. All requests for the key must use the same limit, and
    /// the key must not be used for other kinds of locks. Otherwise the request fails with
    /// [`LockError::WrongKind`](crate::LockError::WrongKind). A semaphore has no fencing token.
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

    /// The request succeeds without a command if a section of this task holds the same key of the same manager. Without
    /// this option, it fails with [`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock). The outer section
    /// releases the lock. If the outer section loses the lock, the inner one loses it, too.
    ///
    /// The section must hold the same kind of lock. A shared request is also granted inside an exclusive lock. A shared
    /// lock cannot become an exclusive one: this request fails with `WouldDeadlock`. Any other pair of kinds fails with
    /// [`LockError::WrongKind`](crate::LockError::WrongKind), as it does outside a section. Several re-entrant calls at
    /// the same time, for example in a `join!` inside the section, do not exclude each other.
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
    /// With [`Release::Background`], the section returns without waiting for the server's reply, which saves a round
    /// trip. The costs are:
    ///
    /// - After the section has returned, another process may still find the lock busy for a moment. This process does
    ///   not, because its release is sent before its next request.
    /// - A release that fails is retried in the background, as always, but only the log reports it.
    /// - A section on a thread, whose body cannot be stopped, does not return a loss that only the server's reply would
    ///   show. It still returns a loss that is known when the body ends.
    /// - A process that ends right after the section may not have sent the release. End it with
    ///   [`shutdown`](crate::LockManager::shutdown), which waits.
    ///
    /// At most 1024 releases of a manager run in the background. Further sections wait for the reply to their release.
    /// The option has no effect on [`Guard::release`](crate::Guard::release), which always waits, and on a store that
    /// replies at once.
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

    /// After the last release in this process, the process keeps the lock for up to this time. During this time, a
    /// request of this process acquires the lock without a round trip. Other processes find the lock busy, and get it
    /// as soon as they request it. For locks that one process uses many times in a row. From 1 ms to 10 s. For most
    /// uses, tens of milliseconds are enough. `None`: the lock is released at once, even if the manager has a default.
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
    /// - **The time** counts from the first release since the server granted the lock. When it is over, the next
    ///   release goes to the server, even if sections follow each other without a pause. The section after it sends a
    ///   new request. Now and then, this request waits for a [gap](crate::LockManagerBuilder::fairness_gap), so that
    ///   clients that only poll have their turn.
    /// - **Other processes** that wait for the lock notify this process at once, through its connection for pushes. If
    ///   the push is lost, they get the lock when the time is over. Clients that do not know this option also get the
    ///   lock when the time is over: earlier versions of this crate, clients that poll, and every process on a store
    ///   without these pushes (all but Redis and Valkey). A single attempt ([`try_acquire`](LockRequest::try_acquire))
    ///   finds the lock busy although no section uses it, and the next attempt finds it free. After a request of
    ///   another process, the lock is released at once for two seconds. So the option does not help if several
    ///   processes request the lock all the time.
    /// - **A lock that was taken over** ([`take_over`](crate::LockManager::take_over)) does not linger, because other
    ///   processes may have notified its former holder.
    /// - **Every section** has its own fencing token and its own [`max_hold`](LockRequest::max_hold), and it only
    ///   begins while the lease is certainly valid. If the lock is lost while no section uses it, the loss is not
    ///   reported, and the next request goes to the server. A section may begin without noticing a forced release, or a
    ///   fail-over that lost the lock. Only the fencing token detects this.
    /// - **After a crash**, others wait for the ttl even if no section was running. A process that ends releases its
    ///   lingering locks if its manager is dropped or [shut down](crate::LockManager::shutdown). A manager in a
    ///   `static` must be shut down.
    /// - **A release** that keeps the lock in the process sends nothing. So it cannot detect a lost lock, which the
    ///   server's reply would show.
    ///
    /// Only for an exclusive lock of one key, without [`min_hold`](LockRequest::min_hold), and not on a quorum of
    /// servers: otherwise the request fails with [`LockError::InvalidOptions`](crate::LockError::InvalidOptions).
    #[doc(alias("keep", "sticky", "cache"))]
    pub fn linger(self, linger: impl Into<Option<Duration>>) -> Self {
        LockRequest { linger: linger.into().map_or(Lingering::Never, Lingering::For), ..self }
    }

    /// A name for traces. It must have bounded cardinality (no user ids). The attribute uses its key template.
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

    /// Warns in the log, and in the stream of [`events`](crate::LockManager::events), when the request has waited for
    /// longer than this, then after twice that time, and so on. A warning may be up to a second late. The manager's
    /// default is never.
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

    /// Warns in the same way when the lock is held for longer than this, for example by a section that hangs.
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
