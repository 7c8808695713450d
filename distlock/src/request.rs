//! A request for a lock: its options, and the ways to acquire.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Demand, Kind};
use crate::clock;
use crate::driver::{self, AcquireResult, Lasting, Watched};
use crate::engine::{Outcome, Renewal, WaitLimit, Want};
use crate::error::{LockError, LostReason};
use crate::guard::Guard;
use crate::key::LockKey;
use crate::manager::LockManager;
use crate::observe::spans;
use crate::request_report::RequestReport;
use crate::retry::Retry;
use crate::scope;
use crate::section::{Held, Holding, OnLost, hold};
use crate::single_attempt;

/// With a shorter ttl, network and scheduling take longer than the lease lasts.
const SHORTEST_TTL: Duration = Duration::from_millis(10);
/// A longer ttl is probably a mistake.
const LONGEST_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) const NO_WAITERS: &str =
    "`max_waiters` is zero: nobody could ever ask; for one attempt use `no_wait`";

/// How long to wait for a lock that another holder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The manager's default; for `try_acquire`, not at all.
    Default,
    For(Duration),
    Forever,
    Retry(Retry),
}

/// A request for a lock, or for several at once. Nothing happens until it is acquired, tried or run.
///
/// See [`LockManager::lock`] and [`LockManager::lock_all`].
#[must_use = "a request does nothing until it is acquired, tried or run"]
#[derive(Debug)]
pub struct LockRequest {
    manager: LockManager,
    /// Sorted, without duplicates, at least one.
    keys: Result<Vec<LockKey>, LockError>,
    ttl: Option<Duration>,
    wait: Wait,
    renewal: Renewal,
    kind: Kind,
    fenced: bool,
    reentrant: bool,
    max_waiters: Option<u32>,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    warn_wait: Option<Duration>,
    warn_hold: Option<Duration>,
    label: Cow<'static, str>,
}

impl LockRequest {
    pub(crate) fn new(manager: LockManager, keys: Result<Vec<LockKey>, LockError>) -> Self {
        LockRequest {
            manager,
            keys,
            ttl: None,
            wait: Wait::Default,
            renewal: Renewal::Keep,
            kind: Kind::Exclusive,
            fenced: false,
            reentrant: false,
            max_waiters: None,
            max_hold: None,
            min_hold: None,
            warn_wait: None,
            warn_hold: None,
            label: Cow::Borrowed("lock"),
        }
    }

    /// The lease time: how long others wait after this process crashed. Renewed in the background while the
    /// lock is held. From 10 ms to 365 days, cut to whole milliseconds; the manager's default is 30 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        LockRequest { ttl: Some(ttl), ..self }
    }

    /// How long to wait for the lock before [`LockError::Busy`]. Zero is one attempt. The manager's default
    /// is 10 s.
    pub fn wait(self, wait: Duration) -> Self {
        LockRequest { wait: Wait::For(wait), ..self }
    }

    /// One attempt, without waiting.
    pub fn no_wait(self) -> Self {
        self.wait(Duration::ZERO)
    }

    /// Waits without a time limit. (A server that cannot be reached is an error all the same.)
    pub fn wait_forever(self) -> Self {
        LockRequest { wait: Wait::Forever, ..self }
    }

    /// Instead of waiting in the queue, tries again a number of times.
    pub fn retry(self, retry: Retry) -> Self {
        LockRequest { wait: Wait::Retry(retry), ..self }
    }

    /// Does not renew: the ttl is a hard limit. For several keys it counts from the moment at which all of
    /// them are acquired; until then they are renewed.
    pub fn no_renew(self) -> Self {
        LockRequest { renewal: Renewal::Never, ..self }
    }

    /// The longest time for which the lock is held, from acquisition (of several keys, of the last one). Then
    /// it is lost ([`LostReason::MaxHold`](crate::LostReason::MaxHold)).
    pub fn max_hold(self, max_hold: Duration) -> Self {
        LockRequest { max_hold: Some(max_hold), ..self }
    }

    /// Excludes others for at least this long from acquisition (of several keys, of the last one), even if
    /// the lock is released earlier, or lost to [`max_hold`](LockRequest::max_hold) or a shutdown. For
    /// scheduled jobs and throttles. It ends early if the key is taken away on the server, and with the lease
    /// if the process dies or cannot reach the server. Without renewal it may not be longer than the ttl.
    pub fn min_hold(self, min_hold: Duration) -> Self {
        LockRequest { min_hold: Some(min_hold), ..self }
    }

    /// The most requests of this process that may wait for the key. If as many wait already, this request
    /// ends as [`LockError::Busy`] at once. Only the requests of this process count, including the one whose
    /// command is under way, but not the holder; other processes have limits of their own. At least one; the
    /// manager's default is no limit. For very popular keys, where it is better to turn requests away than to
    /// let them wait.
    pub fn max_waiters(self, most: u32) -> Self {
        LockRequest { max_waiters: Some(most), ..self }
    }

    /// Asks for a [fencing token](crate::FencingToken).
    pub fn fenced(self) -> Self {
        LockRequest { fenced: true, ..self }
    }

    /// A read lock: any number of shared holders, or one exclusive holder. A later reader does not pass a
    /// writer that waits. Has no fencing token.
    pub fn shared(self) -> Self {
        LockRequest { kind: Kind::Shared, ..self }
    }

    /// A counting semaphore: at most `limit` holders at a time. The limit must be the same wherever the key is
    /// used ([`LockError::WrongKind`] otherwise), and the key may not be used for other kinds of locks. Has no
    /// fencing token.
    pub fn max_holders(self, limit: u32) -> Self {
        LockRequest { kind: Kind::Limited(limit), ..self }
    }

    /// Inside a section of this task that holds the same key of the same manager: succeeds without acquiring,
    /// instead of failing with [`LockError::WouldDeadlock`]. The outer section releases the lock. If the
    /// outer section loses the lock, the inner one has lost it, too.
    pub fn reentrant(self) -> Self {
        LockRequest { reentrant: true, ..self }
    }

    /// A name for traces, of bounded cardinality (no user ids). The attribute uses its key template.
    pub fn label(self, label: impl Into<Cow<'static, str>>) -> Self {
        LockRequest { label: label.into(), ..self }
    }

    /// Warns in the log, and in the stream of [`events`](LockManager::events), when the request waits for longer than
    /// this; then after twice that time, and so on. Up to a second late. The manager's default is never.
    pub fn warn_wait(self, limit: Duration) -> Self {
        LockRequest { warn_wait: Some(limit), ..self }
    }

    /// Warns in the same way when the lock is held for longer than this, as by a section that hangs.
    pub fn warn_hold(self, limit: Duration) -> Self {
        LockRequest { warn_hold: Some(limit), ..self }
    }

    /// Acquires the lock.
    ///
    /// # Errors
    /// [`LockError::Busy`] when the wait is over. [`LockError::Unavailable`]:
    ///
    /// - if the server cannot be reached for the `wait` or for
    ///   [`unavailable_after`](crate::LockManagerBuilder::unavailable_after) (3 s), whichever is shorter (a
    ///   single attempt: 1 s at most, for all of its keys together);
    /// - at once, if the server refuses permanently, in a process that was forked after the manager was
    ///   created, or once the manager's I/O thread has ended;
    /// - if the lease ended before the guard existed and the wait is over (nothing was run).
    ///
    /// [`LockError::WrongKind`], [`LockError::WouldDeadlock`], [`LockError::InvalidKey`],
    /// [`LockError::InvalidOptions`], [`LockError::Closed`].
    ///
    /// # Cancel safety
    /// Dropping the future at any time leaves nothing behind: a waiter leaves the queue at once, and a lock
    /// that was just acquired is released in the background. The place in the queue is lost.
    ///
    /// A future that is kept but not polled (as `select!` on `&mut future` with a slow branch does) may be
    /// granted the lock all the same. Such a lock is not renewed: when its ttl is over, it is released and
    /// passed on to the next waiter. If the future is polled again, the request goes on waiting if its time
    /// allows; otherwise it fails with [`LockError::Unavailable`]. The same applies to those of several keys
    /// that it has already acquired.
    pub async fn acquire(self) -> Result<Guard, LockError> {
        let keys = self.keys.as_ref().map_or(0, Vec::len);
        let report = RequestReport::begin(self.manager.core(), &self.label, self.kind, keys);
        let key = self.keys.as_ref().ok().and_then(|keys| keys.first()).map_or("", LockKey::as_str);
        let shown = spans::Request { label: &self.label, kind: self.kind, key, keys };
        let _watched =
            self.warn_wait.or(self.manager.defaults().warn_wait).map(|limit| self.warn_of_long_wait(limit));
        let result = spans::acquiring(shown, self.go()).await;
        let warn_hold = self.warn_hold.or(self.manager.defaults().warn_hold);
        if let (Ok(guard), Some(limit)) = (&result, warn_hold) {
            guard.warn_of_long_hold(limit);
        }
        match &result {
            Ok(guard) => guard.report_acquired(report.end()),
            Err(error) => report.not_acquired(error),
        }
        result
    }

    /// Acquires the lock if it is free: with one attempt, or for as long as [`wait`](LockRequest::wait) or
    /// [`retry`](LockRequest::retry) allow. `None`: it is busy.
    ///
    /// # Errors
    /// As [`acquire`](LockRequest::acquire), except `Busy`.
    ///
    /// # Cancel safety
    /// As [`acquire`](LockRequest::acquire).
    pub async fn try_acquire(self) -> Result<Option<Guard>, LockError> {
        let once = if self.wait == Wait::Default { self.no_wait() } else { self };
        match once.acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.is_busy() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, runs `body` while holding it, and releases it before returning. If the lock is
    /// lost, the body is dropped at its next await point.
    ///
    /// ```
    /// # async fn doc() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::in_memory();
    /// let sum = manager.lock("order:42").run(async |held| {
    ///     assert!(held.is_held());
    ///     40 + 2
    /// }).await?;
    /// # let _ = sum; Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](LockRequest::acquire), and [`LockError::Lost`] if the body was stopped. If the body
    /// completes, its value is returned: a failed release is traced, not returned.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, then releases in the background, even if the body has passed on
    /// clones of its handle: from then on they report the lock as not held ([`lost`](Guard::lost) too).
    ///
    /// # Panics
    /// If the body does; the lock is released in the background, as if the future were dropped.
    pub async fn run<F, Fut>(self, body: F) -> Result<Fut::Output, LockError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future,
    {
        let holding = Holding::new(self.acquire().await?);
        let held = holding.handle();
        let inner = held.clone();
        let output = hold(held, OnLost::Cancel, async move { body(inner).await }).await;
        held.release_and_report().await;
        output
    }

    async fn go(&self) -> Result<Guard, LockError> {
        let keys = self.keys.as_ref().map_err(Clone::clone)?;
        let want = self.want()?;
        self.check_kind(keys.len())?;
        if self.fenced && keys.len() > 1 {
            return Err(LockError::options(
                "several keys have no common fencing token: lock the one that the data checks, fenced",
            ));
        }
        self.check_store(keys, &want)?;
        let Wait::Retry(retry) = self.wait else {
            let result = self.all(keys, &want).await;
            return if want.wait_limit == WaitLimit::Once { result.map_err(not_waited) } else { result };
        };
        let mut left = retry.times;
        let started = clock::now();
        loop {
            match self.all(keys, &want).await {
                Err(error) if error.is_busy() && left > 0 => {
                    left -= 1;
                    self.manager.core().sleep(retry.pause()).await;
                }
                Err(LockError::Busy { key, holder, .. }) => {
                    return Err(LockError::Busy {
                        key,
                        holder,
                        waited: clock::now().duration_since(started),
                    });
                }
                other => return other,
            }
        }
    }

    fn warn_of_long_wait(&self, limit: Duration) -> Watched {
        let key = self.keys.as_ref().ok().and_then(|keys| keys.first()).map(|key| key.shared().clone());
        let wait = Lasting::Wait { label: self.label.clone(), key: key.unwrap_or_default() };
        self.manager.core().watch_long(wait, limit)
    }

    /// A lease that ends before its guard existed is not reported as a loss: the request goes on for as long
    /// as it may wait.
    async fn all(&self, keys: &[LockKey], want: &Want) -> Result<Guard, LockError> {
        loop {
            let guard = match keys {
                [key] => match self.enter_again(key) {
                    Some(nested) => nested?,
                    None => self.ask(key, want).await?,
                },
                // Boxed because it is rare: it would add to the size of every acquisition.
                keys => Box::pin(self.in_order(keys, want)).await?,
            };
            // Each of these ways has just checked whether the process was forked.
            let Err(lost) = guard.check_here() else { return Ok(guard) };
            guard.check_nested()?;
            drop(guard);
            if let Some(error) = unused(lost, want.wait_limit) {
                return Err(error);
            }
        }
    }

    /// Acquires one key after the other, in order, so that requests that name the same keys in another order
    /// cannot deadlock with this one. If one fails, those that were acquired are released.
    async fn in_order(&self, keys: &[LockKey], want: &Want) -> Result<Guard, LockError> {
        let mut guard: Option<Guard> = None;
        let mut rest = keys;
        // Until all keys are acquired they are renewed, and no other time limit applies.
        let mut collecting = Want {
            renewal: Renewal::Keep,
            max_hold: None,
            min_hold: None,
            collection: Some(Arc::default()),
            ..want.clone()
        };
        let began = clock::now();
        while let Some(key) = rest.first() {
            if want.wait_limit == WaitLimit::Once {
                collecting.unavailable_after =
                    single_attempt::left(want.unavailable_after, clock::now().duration_since(began));
            }
            let (next, error) = match self.enter_again(key) {
                Some(Ok(nested)) => (vec![nested], None),
                Some(Err(error)) => (Vec::new(), Some(error)),
                None if collecting.unavailable_after.is_zero() => (Vec::new(), Some(too_slow(key))),
                None => self.ask_for_some(rest, &collecting).await,
            };
            rest = rest.get(next.len()..).unwrap_or_default();
            for next in next {
                match &mut guard {
                    Some(guard) => guard.join(next),
                    None => guard = Some(next),
                }
            }
            if let Some(error) = error {
                // If the server does not answer, do not wait for it a second time: dropping the guard
                // releases.
                if let Some(guard) = guard.filter(|_| !error.is_unavailable()) {
                    guard.release_and_report().await;
                }
                return Err(error);
            }
        }
        let guard = guard.ok_or_else(|| LockError::key("there are no keys to lock"))?;
        if want.renewal == Renewal::Never || want.max_hold.is_some() || want.min_hold.is_some() {
            guard.begin(want);
        }
        Ok(guard)
    }

    /// `None`: this task does not hold the key.
    fn enter_again(&self, key: &LockKey) -> Option<Result<Guard, LockError>> {
        let id = self.manager.core().id;
        let outer = scope::find_held(|held| held.covers(Some(id), key.as_str()))?;
        if !self.reentrant {
            return Some(Err(LockError::WouldDeadlock { key: key.clone() }));
        }
        if self.fenced && outer.fencing_token().is_none() {
            return Some(Err(LockError::options(
                "a fenced request inside a section that holds the same key without a fencing token: make \
                 the outer one fenced",
            )));
        }
        Guard::nested_in(&outer, key.as_str(), self.label.clone()).map(Ok)
    }

    /// Acquires the first of `keys`, and with it as many of the next ones as one command can; or returns why
    /// the key after those was not acquired.
    async fn ask_for_some(&self, keys: &[LockKey], want: &Want) -> (Vec<Guard>, Option<LockError>) {
        if let (Some(error), Some(key)) = (self.manager.core().refusal(), keys.first()) {
            let error = LockError::Unavailable { key: key.clone(), source: error.source };
            return (Vec::new(), Some(error));
        }
        let nested = keys.iter().position(|key| self.enter_again(key).is_some());
        let mut names: Vec<Arc<str>> = keys.iter().map(|key| key.shared().clone()).collect();
        names.truncate(nested.unwrap_or(keys.len()));
        names.truncate(self.manager.core().backend.acquires_all(&names).max(1));
        let (lease_handles, outcome) = driver::acquire_all(self.manager.alive(), &names, want).await;
        let error = keys.get(lease_handles.len()).zip(outcome);
        let error = error.map(|(key, outcome)| error_of(outcome, key.clone(), self.kind));
        (lease_handles.into_iter().map(Guard::new).collect(), error)
    }

    async fn ask(&self, key: &LockKey, want: &Want) -> Result<Guard, LockError> {
        if let Some(error) = self.manager.core().refusal() {
            return Err(LockError::Unavailable { key: key.clone(), source: error.source });
        }
        match driver::acquire(self.manager.alive(), key.shared().clone(), want.clone()).await {
            AcquireResult::Acquired(lease_handle) => Ok(Guard::new(lease_handle)),
            AcquireResult::Not(outcome) => Err(error_of(outcome, key.clone(), self.kind)),
        }
    }

    fn check_store(&self, keys: &[LockKey], want: &Want) -> Result<(), LockError> {
        let backend = &self.manager.core().backend;
        let Want { kind, ttl, fenced, min_hold, .. } = *want;
        backend.check(&Demand { kind, ttl, fenced, min_hold })?;
        keys.iter().try_for_each(|key| backend.check_key(key))
    }

    fn check_kind(&self, keys: usize) -> Result<(), LockError> {
        if let Some(reason) = self.manager.core().backend.refuses(self.kind) {
            return Err(LockError::options(reason));
        }
        match self.kind {
            Kind::Limited(0) => Err(LockError::options("`max_holders` is zero: nobody could ever enter")),
            Kind::Limited(_) if keys > 1 => {
                Err(LockError::options("`max_holders` with several keys: lock them one by one"))
            }
            Kind::Shared | Kind::Limited(_) if self.fenced => Err(LockError::options(
                "only exclusive locks have fencing tokens: holders that share a lock have no order",
            )),
            _ => Ok(()),
        }
    }

    /// Checks the options and fills in the defaults.
    fn want(&self) -> Result<Want, LockError> {
        let defaults = self.manager.defaults();
        let ttl = valid_ttl(self.ttl.unwrap_or(defaults.ttl))?;
        if self.max_hold.is_some_and(|hold| hold.is_zero()) {
            return Err(LockError::options("`max_hold` is zero: leave it out for no limit"));
        }
        let max_waiters = self.max_waiters.or(defaults.max_waiters);
        if max_waiters == Some(0) {
            return Err(LockError::options(NO_WAITERS));
        }
        if self.renewal == Renewal::Never && self.min_hold.is_some_and(|hold| hold > ttl) {
            return Err(LockError::options(
                "`min_hold` is longer than the ttl, and renewal is off: make the ttl longer",
            ));
        }
        let (wait_limit, unavailable_after) = match self.wait {
            Wait::Default => waiting(defaults.wait, defaults.unavailable_after),
            Wait::For(wait) => waiting(wait, defaults.unavailable_after),
            Wait::Forever => (WaitLimit::Forever, defaults.unavailable_after),
            Wait::Retry(_) => waiting(Duration::ZERO, defaults.unavailable_after),
        };
        Ok(Want {
            kind: self.kind,
            ttl,
            renewal: self.renewal,
            wait_limit,
            unavailable_after,
            fenced: self.fenced,
            max_waiters,
            max_hold: self.max_hold,
            min_hold: self.min_hold,
            collection: None,
            label: self.label.clone(),
        })
    }
}

/// The round trip of a single attempt does not count as waiting.
fn not_waited(error: LockError) -> LockError {
    match error {
        LockError::Busy { key, holder, .. } => LockError::Busy { key, holder, waited: Duration::ZERO },
        other => other,
    }
}

/// The lock was acquired and lost before its guard existed. `None`: the request may go on.
fn unused(lost: LockError, wait_limit: WaitLimit) -> Option<LockError> {
    let LockError::Lost { key, reason } = lost else { return Some(lost) };
    let goes_on = match (reason, wait_limit) {
        (LostReason::Shutdown, _) => return Some(LockError::Closed),
        (LostReason::MaxHold, _) | (_, WaitLimit::Once) => false,
        (_, WaitLimit::Until(until)) => clock::now() < until,
        (_, WaitLimit::Forever) => true,
    };
    let why = || format!("it was acquired, but was lost before it could be used: {reason}; nothing was run");
    (!goes_on).then(|| LockError::unavailable(key, why()))
}

fn too_slow(key: &LockKey) -> LockError {
    LockError::unavailable(
        key.clone(),
        "the server took all the time of the attempt for the keys before this one",
    )
}

/// A wait of zero is one attempt. The server has a short time to answer it.
fn waiting(wait: Duration, unavailable_after: Duration) -> (WaitLimit, Duration) {
    if wait.is_zero() {
        (WaitLimit::Once, single_attempt::reach(unavailable_after))
    } else {
        (WaitLimit::Until(clock::now().after(wait)), unavailable_after.min(wait))
    }
}

/// Leases are counted in whole milliseconds.
pub(crate) fn valid_ttl(ttl: Duration) -> Result<Duration, LockError> {
    if ttl < SHORTEST_TTL {
        return Err(LockError::options(format!(
            "a ttl of {ttl:?} is too short: the least is {SHORTEST_TTL:?}"
        )));
    }
    if ttl > LONGEST_TTL {
        return Err(LockError::options(format!("a ttl of {ttl:?} is too long: the most is 365 days")));
    }
    Ok(Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)))
}

fn error_of(outcome: Outcome, key: LockKey, kind: Kind) -> LockError {
    match outcome {
        Outcome::Busy { holder, waited } => LockError::Busy { key, holder, waited },
        Outcome::Unavailable(error) => LockError::Unavailable { key, source: error.source },
        Outcome::WrongKind { found } => LockError::WrongKind { key, wanted: kind.to_string().into(), found },
        Outcome::Acquired(_) | Outcome::Skipped | Outcome::Closed => LockError::Closed,
    }
}
