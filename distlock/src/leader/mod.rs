//! Leader election: one of several processes does a job that only one process may do, for as long as it can.
//!
//! ```
//! use distlock::LockManager;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), distlock::LockError> {
//! let manager = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/").await?
//! let candidate = manager.leader("scheduler");
//! let term = candidate
//!     .run(async |lead| {
//!         assert!(lead.is_leader());
//!         // Work until `lead.closing()`; write with `lead.term()`, so that the data can refuse a former leader.
//!         lead.term()
//!     })
//!     .await?;
//! assert!(!candidate.is_leader());
//! # let _ = term; Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! A leader is the holder of an exclusive, fenced lock, so the guarantees for a holder also apply to a leader.
//! [`is_leader`](Candidate::is_leader) returns false before the store grants the lock to the next leader, without I/O,
//! even if the process was paused. The numbers of the terms increase, and the terms of two leaders never overlap in
//! their own view, under the conditions of [the crate](crate#what-it-guarantees). A process that is not scheduled
//! cannot react to the end of its term, so let the database check [`term`](Lead::term).

mod lead;
mod report;
mod state;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod watch;

use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Failure;
use crate::driver::Published;
use crate::error::{LockError, LostReason};
use crate::guard::Guard;
use crate::key::{IntoLockKey, LockKey};
use crate::manager::LockManager;
use crate::release::Release;
use crate::request::LockRequest;
use crate::section::{Hold, Holding, OnLost};
use distlock_store::{FencingToken, LONGEST_VALUE, clock};
pub use lead::Lead;
use report::TermReport;
use state::{Reign, State};
pub use watch::{LeaderWatch, Leadership};

/// The pauses between two campaigns begin with this, on average, and double.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After a term that lasted this long, the next campaign begins like the first.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// A candidate for leadership: see [`LockManager::leader`]. Clones are the same candidate. While one task runs
/// [`run`](Candidate::run), other tasks check with their clones whether the candidate leads.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let candidate = manager.leader("scheduler");
/// let status = candidate.clone(); // for another task, such as the status page
/// let led = candidate.run(async |_lead| status.is_leader()).await?;
/// assert!(led && !status.is_leader());
/// # Ok(()) }
/// ```
#[doc(alias("election", "leader election", "LeaderElector", "LeaderLatch"))]
#[must_use = "a candidate does nothing until it runs"]
#[derive(Clone)]
pub struct Candidate {
    manager: LockManager,
    key: Result<LockKey, LockError>,
    ttl: Option<Duration>,
    label: Cow<'static, str>,
    value: Option<Arc<str>>,
    state: Arc<State>,
}

impl LockManager {
    /// A candidate for the office `name`. Among all processes that share the store, an office has at most one leader at
    /// a time. The office is the exclusive lock of that name: [`inspect`](LockManager::inspect) shows the leader, and
    /// [`force_release`](LockManager::force_release) ends the term. If the name is invalid, [`run`](Candidate::run)
    /// fails.
    ///
    /// Each call creates a new candidate, even with the same name. To check in another task whether a candidate leads,
    /// clone the candidate.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let candidate = manager.leader("scheduler");
    /// let term = candidate.run(async |lead| lead.term()).await?;
    /// println!("it led in term {term}, and has resigned");
    /// # Ok(()) }
    /// ```
    #[doc(alias("election", "leader election", "elect", "LeaderElector", "singleton"))]
    pub fn leader(&self, name: impl IntoLockKey) -> Candidate {
        let key = name.into_lock_key();
        let label = match &key {
            Ok(key) => Cow::Owned(key.to_string()),
            Err(_) => Cow::Borrowed("leader"),
        };
        Candidate { manager: self.clone(), key, ttl: None, label, value: None, state: Arc::default() }
    }
}

/// The order matters: the lock is released before the candidate's clones report the end of the term. So a clone's task
/// that then asks the store does not find this term there.
struct Term {
    holding: Holding,
    _reign: Reign,
    _report: Option<TermReport>,
}

/// The growing pause between campaigns that fail.
struct Pause(Duration);

impl Pause {
    fn next(&mut self) -> Duration {
        let pause = self.0.mul_f64(0.5 + fastrand::f64());
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
        pause
    }
}

impl Candidate {
    /// The ttl of the lease: how long the office has no leader after the leader has crashed. While the process lives,
    /// the lease is renewed. If not set, the manager's default.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// // A crash of the leader is noticed after 5 s.
    /// manager.leader("scheduler").ttl(Duration::from_secs(5)).run(async |_lead| { /* the work */ }).await?;
    /// # Ok(()) }
    /// ```
    pub fn ttl(self, ttl: Duration) -> Self {
        Candidate { ttl: Some(ttl), ..self }
    }

    /// A name for traces and metrics. It must have bounded cardinality. If not set, the name of the office.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let tenant = 7;
    /// let candidate = manager.leader(format!("scheduler:{tenant}")).label("scheduler");
    /// candidate.run(async |_lead| { /* the work */ }).await?;
    /// # Ok(()) }
    /// ```
    pub fn label(self, label: impl Into<Cow<'static, str>>) -> Self {
        Candidate { label: label.into(), ..self }
    }

    /// A text that the leader publishes for processes that [`watch`](Self::watch) the office, for example its address.
    /// At most 1 KiB. It must not be a secret, because it is written to the store. It is written in each term before
    /// the body begins. Watchers read it in [`Leadership::Elsewhere`]. The leader also holds a second lock for
    /// its term, and the watchers wait for this lock. So where the store notifies waiters, they notice the end of the
    /// term at once. On the other stores they poll: see [`LeaderWatch::changed`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let candidate = manager.leader("scheduler").value("10.0.0.7:8080");
    /// candidate.run(async |_lead| {
    ///     let lock = manager.inspect("scheduler").await?.expect("it leads");
    ///     assert_eq!(lock.holders[0].value.as_deref(), Some("10.0.0.7:8080"));
    ///     Ok::<(), distlock::LockError>(())
    /// }).await?
    /// # }
    /// ```
    #[doc(alias("proclaim", "identity", "address"))]
    pub fn value(self, value: impl Into<Arc<str>>) -> Self {
        Candidate { value: Some(value.into()), ..self }
    }

    /// Campaigns until it leads, and runs `body` while it leads. If the term ends early (the lease has expired, or an
    /// operator has released it), the body is dropped at its next await point, and a new campaign begins. `body` is
    /// called once for each term. When a body returns, the candidate resigns, and `run` returns the body's value.
    ///
    /// While the store is unreachable, the candidate retries, with pauses of up to 7.5 s. A pause ends at once when the
    /// connection is up again.
    ///
    /// [`shutdown`](LockManager::shutdown) ends a campaign at once. A leader may continue until the grace period is
    /// over. A body that awaits [`closing`](Lead::closing) can end earlier, so the shutdown need not wait for the whole
    /// grace period.
    ///
    /// ```
    /// # async fn doc(manager: distlock::LockManager) -> Result<(), distlock::LockError> {
    /// # async fn send_what_is_due(_term: distlock::FencingToken) {}
    /// use std::time::Duration;
    ///
    /// manager.leader("mailer").ttl(Duration::from_secs(10)).run(async |lead| {
    ///     let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ///     loop {
    ///         tokio::select! {
    ///             _ = ticks.tick() => send_what_is_due(lead.term()).await,
    ///             () = lead.closing() => return,
    ///         }
    ///     }
    /// }).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Closed`] if the manager is shut down during a campaign, [`LockError::Lost`] with
    /// [`LostReason::Shutdown`] if it was shut down during a term and the grace period is over. At once, because a
    /// retry cannot help: [`LockError::InvalidKey`], [`LockError::InvalidOptions`] (also from a store without fencing
    /// tokens, or one that refuses the [`value`](Self::value)), [`LockError::WrongKind`], [`LockError::WouldDeadlock`],
    /// and [`LockError::Unavailable`] if this process was forked or the I/O thread has ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the campaign, or drops the body and resigns in the background, so that the next
    /// candidate can lead at once.
    ///
    /// # Panics
    /// Panics if the body panics. The candidate then resigns, as if the future were dropped.
    pub async fn run<F, Fut>(&self, mut body: F) -> Result<Fut::Output, LockError>
    where
        F: FnMut(Lead) -> Fut,
        Fut: Future,
    {
        let mut pause = Pause(FIRST_PAUSE);
        if let Ok(key) = &self.key {
            report::stands(self.manager.core(), self.label.clone(), key.shared());
        }
        loop {
            let mut began = clock::now();
            let connected = self.manager.core().connected_anew();
            let ended = match self.campaign().await {
                Ok((guard, term)) => {
                    began = clock::now();
                    self.reign(guard, term, &mut body).await
                }
                Err(error) => Err(error),
            };
            let error = match ended {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if !self.goes_on_after(&error) {
                return Err(error);
            }
            if error.is_lost() && clock::now().duration_since(began) >= STABLE_AFTER {
                pause = Pause(FIRST_PAUSE);
            }
            self.rest(pause.next(), connected).await;
        }
    }

    /// Whether this candidate certainly leads at this moment. No I/O: the local deadline is earlier than the expiry in
    /// the store. It is false between a loss and the next term, even if a body that does not await is still running.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let candidate = manager.leader("scheduler");
    /// assert!(!candidate.is_leader());
    /// candidate.run(async |_lead| assert!(candidate.is_leader())).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.state.lead().is_some()
    }

    /// The term in which this candidate leads at this moment.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let candidate = manager.leader("scheduler");
    /// assert_eq!(candidate.term(), None);
    /// candidate.run(async |lead| assert_eq!(candidate.term(), Some(lead.term()))).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn term(&self) -> Option<FencingToken> {
        self.state.lead().map(|lead| lead.term())
    }

    /// Watches the office: reports whether this candidate or another one leads.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use distlock::leader::Leadership;
    ///
    /// let candidate = manager.leader("scheduler");
    /// match candidate.watch().changed().await {
    ///     Leadership::Here { term, .. } => println!("this process leads, in term {term}"),
    ///     Leadership::Elsewhere { owner, .. } => println!("{owner} leads"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn watch(&self) -> LeaderWatch {
        LeaderWatch::new(self.manager.clone(), self.key.clone(), self.state.clone())
    }

    /// Whether the candidate is healthy, for a health check. It fails if a body still runs although a check `tolerance`
    /// ago or earlier found its term over. This body blocks without an await, so it could not be stopped, and the
    /// candidate cannot campaign while it runs. No I/O. A candidate is healthy while it waits for the office, or while
    /// its server is unreachable.
    ///
    /// The counterpart of `HealthzAdaptor` of client-go. For axum, use `distlock::axum::LeaderHealth`.
    ///
    /// # Errors
    /// [`LockError::Lost`], with the reason for which the term has ended. [`LockError::Unavailable`] in a forked
    /// process.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let candidate = manager.leader("scheduler");
    /// candidate.health(Duration::from_secs(20))?; // it does not lead: well
    /// # Ok(()) }
    /// ```
    #[doc(alias("HealthzAdaptor", "healthz", "liveness"))]
    pub fn health(&self, tolerance: Duration) -> Result<(), LockError> {
        self.state.check(tolerance)
    }

    async fn campaign(&self) -> Result<(Guard, FencingToken), LockError> {
        let key = self.key.clone()?;
        self.check_value()?;
        // All candidates of a process may wait, however few requests may wait for other locks.
        let request = self.manager.lock(key).fenced().wait_forever().warn_wait(watch::NEVER);
        let request = request.max_waiters(u32::MAX).linger(None);
        // A lease that another candidate of this process had would have the owner token of its term.
        let guard = self.with_options(request.own_lease()).acquire().await?;
        match guard.fencing_token() {
            Some(term) => Ok((guard, term)),
            None => Err(LockError::options("the store has given no fencing token: it cannot order leaders")),
        }
    }

    fn check_value(&self) -> Result<(), LockError> {
        let Some(value) = &self.value else { return Ok(()) };
        if value.len() > LONGEST_VALUE {
            return Err(LockError::options(format!(
                "the value of a leader has {} bytes; at most {LONGEST_VALUE} are published",
                value.len()
            )));
        }
        if value.contains('\0') {
            return Err(LockError::options(
                "the value of a leader contains a NUL, which PostgreSQL does not store",
            ));
        }
        if !self.manager.core().backend.publishes() {
            return Err(LockError::options("the store keeps no values: a leader cannot publish one"));
        }
        Ok(())
    }

    /// Acquires the lock of this term, for whose release the watchers wait. A watcher that asked for it sooner has it
    /// for a moment. On a store without shared locks, the watchers poll.
    async fn mark_term(&self, guard: &Guard) -> Option<Guard> {
        let request = watch::term_lock(&self.manager, guard.key(), &guard.owner(), guard.remaining())?;
        self.with_options(request.wait(watch::POLL_INTERVAL)).acquire().await.ok()
    }

    fn with_options(&self, request: LockRequest) -> LockRequest {
        let request = request.label(self.label.clone());
        match self.ttl {
            Some(ttl) => request.ttl(ttl),
            None => request,
        }
    }

    /// Before the body begins, so a watcher that sees this leader soon sees its value, too.
    async fn publish(&self, guard: &Guard) -> Result<Option<Published>, LockError> {
        let Some(value) = &self.value else { return Ok(None) };
        let published = self.manager.core().publish(guard.cell(), guard.remaining(), value).await;
        published.map(Some).map_err(|error| match error.kind {
            // In the next term, it would be refused again.
            Failure::Refused => {
                LockError::options(format!("the store does not keep the value of a leader: {error}"))
            }
            _ => LockError::unavailable(guard.key(), error),
        })
    }

    /// One term.
    async fn reign<F, Fut>(
        &self,
        guard: Guard,
        term: FencingToken,
        body: &mut F,
    ) -> Result<Fut::Output, LockError>
    where
        F: FnMut(Lead) -> Fut,
        Fut: Future,
    {
        self.state.is_elected(guard.owner());
        // Until the lock is released: watchers that wait for its end then find the next leader.
        let _marked = self.mark_term(&guard).await;
        let _published = self.publish(&guard).await?;
        let holding = Holding::new(guard, Release::Confirmed);
        let lead = Lead::new(holding.handle().clone(), term, self.manager.core().clone());
        let term = Term {
            _report: TermReport::begin(self.manager.core(), &lead, self.label.clone()),
            _reign: Reign::begin(&self.state, lead.clone()),
            holding,
        };
        let held = term.holding.handle();
        let result = Hold::new(Some(held), OnLost::Cancel, pin!(Some(async { body(lead).await }))).await;
        held.release_and_report().await;
        result
    }

    /// Whether another campaign makes sense.
    fn goes_on_after(&self, error: &LockError) -> bool {
        match error {
            LockError::Lost { reason, .. } => *reason != LostReason::Shutdown,
            LockError::Busy { .. } => true,
            // An operator may mend the store, but not these.
            LockError::Unavailable { .. } => self.manager.core().refusal().is_none(),
            _ => false,
        }
    }

    /// Ends early when the store is `connected`, too.
    async fn rest(&self, pause: Duration, connected: impl Future<Output = ()>) {
        tokio::select! {
            () = self.manager.core().rest(pause) => {}
            () = connected => {}
        }
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("label", &self.label)
            .field("term", &self.term())
            .finish_non_exhaustive()
    }
}
