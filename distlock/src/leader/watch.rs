//! Watches for changes of the leader.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Lead;
use super::state::State;
use crate::backend::{Demand, LockKind};
use crate::error::LockError;
use crate::key::LockKey;
use crate::manager::{LockClient, LockHolder, LockManager, holder};
use crate::request::LockRequest;
use distlock_store::FencingToken;
use distlock_store::clock;
use distlock_store::engine::Time;

/// How often the store is polled while a caller awaits a change. After a change, it is polled sooner, because another
/// one may follow: a leader, or the value of a leader.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_INTERVAL_AFTER_CHANGE: Duration = Duration::from_millis(50);
/// How often the store is polled while the end of the term is awaited: facts about the leader may become known later.
const WHILE_TOLD: Duration = Duration::from_secs(15);
/// Candidates and watchers wait for as long as another candidate leads, so no warning is due.
pub(super) const NEVER: Duration = Duration::MAX;
/// The label of the watchers' requests.
const LABEL: &str = "leader watch";

/// A request for the lock of a term. The leader holds it alone, and watchers wait for it as readers. No other term uses
/// it, so if it is free, the term is over, however late it is requested. `None`: the store does not keep such a lock.
pub(super) fn term_lock(
    manager: &LockManager,
    office: &str,
    owner: &str,
    ttl: Duration,
) -> Option<LockRequest> {
    let key = LockKey::new(format!("{office}:{owner}")).ok()?;
    let backend = &manager.core().backend;
    backend.check(&Demand::plain(LockKind::Shared, ttl)).ok()?;
    backend.check_key(&key).ok()?;
    Some(manager.lock(key).linger(None).warn_wait(NEVER))
}

/// The current leader, as far as it is known.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::leader::Leadership;
///
/// let mut watch = manager.leader("scheduler").watch();
/// assert_eq!(watch.changed().await, Leadership::Vacant);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// This candidate leads.
    #[non_exhaustive]
    Here {
        /// The number of the term.
        term: FencingToken,
    },
    /// Another candidate leads.
    #[non_exhaustive]
    Elsewhere {
        /// The leader's owner token, `dl1:<client>:<number>`. Each term has its own token.
        owner: String,
        /// The leader's process, as far as the store knows it: host, process id and program on Redis, etcd, SQLite and
        /// in memory; host and process id on PostgreSQL; only the client id on other stores. A leader that has just
        /// connected may be reported again when its process is known. `None`: the token was not created by this
        /// library.
        client: Option<LockClient>,
        /// The text that the leader publishes: see [`Candidate::value`](super::Candidate::value). A leader that has
        /// just begun may be reported again when the text is written.
        value: Option<String>,
    },
    /// No candidate leads.
    Vacant,
    /// The store is unreachable.
    Unknown,
}

/// Reports changes of the leader: see [`Candidate::watch`](super::Candidate::watch).
///
/// ```
/// use distlock::{LockManager, leader::Leadership};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// let candidate = LockManager::in_memory().leader("scheduler");
/// let mut watch = candidate.watch();
/// assert_eq!(watch.changed().await, Leadership::Vacant);
/// candidate.run(async |lead| {
///     assert!(matches!(watch_once(&candidate).await, Leadership::Here { term, .. } if term == lead.term()));
/// }).await?;
/// # async fn watch_once(candidate: &distlock::leader::Candidate) -> Leadership { candidate.watch().changed().await }
/// # Ok(())
/// # }
/// ```
pub struct LeaderWatch {
    manager: LockManager,
    key: Result<LockKey, LockError>,
    state: Arc<State>,
    terms: watch::Receiver<Option<Lead>>,
    reported: Option<Leadership>,
    /// The owner token of the latest leader, and how many there have been.
    latest: Option<String>,
    terms_seen: u64,
    /// When to ask the store, and the pause until the question after that.
    due: Time,
    pause: Duration,
    /// The request for the lock of this term has ended. The next one follows after a pause.
    is_over: bool,
}

impl LeaderWatch {
    pub(super) fn new(manager: LockManager, key: Result<LockKey, LockError>, state: Arc<State>) -> Self {
        let terms = state.subscribe();
        LeaderWatch {
            manager,
            key,
            state,
            terms,
            reported: None,
            latest: None,
            terms_seen: 0,
            due: clock::now(),
            pause: POLL_INTERVAL_AFTER_CHANGE,
            is_over: false,
        }
    }

    /// Returns who leads as soon as that differs from what it returned before. The first call returns at once. Terms
    /// of this candidate are reported when they begin and end. The store notifies the watch when the term of another
    /// candidate ends, as it notifies a waiter of a lock. If it does not notify waiters, the watch polls, as a waiter
    /// does. On a store without shared locks (a quorum), while the command `distlock leader` leads, and while no
    /// candidate leads, the watch asks the store once a second. All of this happens only while this future is awaited,
    /// so the watch may miss a short term.
    ///
    /// The returned leader may already be out of date. Before a process acts as the leader, it must check
    /// [`is_leader`](super::Candidate::is_leader), and pass the term to the database.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use distlock::leader::Leadership;
    ///
    /// let candidate = manager.leader("scheduler");
    /// let mut watch = candidate.watch();
    /// assert_eq!(watch.changed().await, Leadership::Vacant);
    /// candidate.run(async |_lead| {
    ///     assert!(matches!(candidate.watch().changed().await, Leadership::Here { .. }));
    /// }).await?;
    /// # Ok(()) }
    /// ```
    pub async fn changed(&mut self) -> Leadership {
        loop {
            self.terms.mark_unchanged();
            let (known, own) = match self.state.lead() {
                Some(lead) => (Some(Leadership::Here { term: lead.term() }), Some(lead.owner())),
                None if self.asks_now() => (Some(self.ask().await), None),
                None => (None, None),
            };
            if let Some(known) = known
                && self.reported.as_ref() != Some(&known)
            {
                self.count(&known, own);
                (self.is_over, self.pause) = (false, POLL_INTERVAL_AFTER_CHANGE);
                self.reported = Some(known.clone());
                return known;
            }
            self.until_due().await;
        }
    }

    /// How many terms this watch has reported. If the same process leads again, this is a new term. The metric
    /// `distlock_leader_terms_total` counts every term of all candidates, including terms that no watch has reported.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let mut watch = manager.leader("scheduler").watch();
    /// let now = watch.changed().await;
    /// println!("{now:?}, after {} leaders", watch.transitions());
    /// # assert_eq!(watch.transitions(), 0);
    /// # Ok(()) }
    /// ```
    #[doc(alias("leaseTransitions", "leaderTransitions"))]
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.terms_seen
    }

    /// `own` is the owner token of this candidate, if it leads.
    fn count(&mut self, known: &Leadership, own: Option<String>) {
        let leader = if let Leadership::Elsewhere { owner, .. } = known { Some(owner.clone()) } else { own };
        if let Some(leader) = leader.filter(|leader| self.latest.as_ref() != Some(leader)) {
            self.latest = Some(leader);
            self.terms_seen += 1;
        }
    }

    /// After its own term, the watch asks the store at once.
    fn asks_now(&self) -> bool {
        clock::now() >= self.due || matches!(self.reported, Some(Leadership::Here { .. }))
    }

    async fn ask(&mut self) -> Leadership {
        self.due = clock::now().after(self.pause);
        self.pause = (self.pause * 2).min(POLL_INTERVAL);
        let Ok(key) = &self.key else { return Leadership::Unknown };
        match self.manager.look_up(key).await {
            // Its term has not begun yet, or its release is in progress.
            Ok(Some(found)) if self.state.is_own(found.first_holder()) => Leadership::Vacant,
            Ok(Some(found)) => {
                let LockHolder { token, client, value, .. } = holder(&found);
                // Leaves out the client's counts: when they change, the leader is still the same.
                let client = client.map(|client| LockClient { busy: None, lost: None, ..client });
                Leadership::Elsewhere { owner: token, client, value }
            }
            Ok(None) => Leadership::Vacant,
            Err(_) => Leadership::Unknown,
        }
    }

    /// The request for the lock of the term that was reported last. It is granted when the term is over, or at once if
    /// the leader does not hold that lock. A holder that is no candidate has no such lock, and its key may be one of
    /// the application's.
    fn end_of_term(&self) -> Option<LockRequest> {
        let Some(Leadership::Elsewhere { owner, client: Some(_), .. }) = &self.reported else { return None };
        let key = self.key.as_ref().ok().filter(|_| !self.is_over)?;
        let request = term_lock(&self.manager, key.as_str(), owner, self.manager.handle().defaults().ttl)?;
        Some(request.shared().wait_forever().max_waiters(u32::MAX).label(LABEL))
    }

    async fn until_due(&mut self) {
        // A term of this process whose end is not reported, because its body does not await, is checked as often.
        let pause = self.due.duration_since(clock::now()).max(Duration::from_millis(1));
        let pause = if self.state.lead().is_some() { POLL_INTERVAL } else { pause };
        let end = self.end_of_term();
        let pause = if end.is_some() { WHILE_TOLD } else { pause };
        let granted = async {
            match end {
                Some(end) => end.acquire().await.is_ok(),
                None => pending().await,
            }
        };
        tokio::select! {
            granted = granted => {
                self.is_over = true;
                if granted {
                    self.due = clock::now();
                }
            }
            () = self.manager.core().sleep(pause) => (self.is_over, self.due) = (false, clock::now()),
            // Fails only without a sender, which `state` keeps.
            _ = self.terms.changed() => {}
        }
    }
}

impl fmt::Debug for LeaderWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderWatch").field("reported", &self.reported).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use distlock_store::StoredLock;

    /// Another program writes any text into the key of the office. `office:mytoken` may be the application's key.
    #[tokio::test]
    async fn a_holder_that_is_no_candidate_has_no_lock_of_its_term() {
        let mut watch = LockManager::in_memory().leader("office").watch();
        watch.reported =
            Some(Leadership::Elsewhere { owner: "mytoken".to_owned(), client: None, value: None });
        assert!(watch.end_of_term().is_none());
    }

    /// The store would refuse the request again and again.
    #[tokio::test]
    async fn a_term_whose_lock_the_store_does_not_keep_is_polled() {
        let until_the_end_of_a_term = |manager: &LockManager, office: &str| {
            let mut watch = manager.leader(office).watch();
            let found = StoredLock::new(LockKind::Exclusive).holder("dl1:other:1", None);
            let LockHolder { token: owner, client, value, .. } = holder(&found);
            watch.reported = Some(Leadership::Elsewhere { owner, client, value });
            watch.end_of_term()
        };
        let manager = LockManager::in_memory();
        assert!(until_the_end_of_a_term(&manager, "office").is_some());
        let long = "o".repeat(1_020);
        assert!(manager.lock(long.as_str()).try_acquire().await.is_ok());
        assert!(until_the_end_of_a_term(&manager, &long).is_none(), "its key would be too long");
        #[cfg(feature = "redis")]
        {
            let quorum = LockManager::builder().quorum(["redis://a", "redis://b", "redis://c"]);
            let quorum = quorum.connect_lazy().unwrap();
            assert!(until_the_end_of_a_term(&quorum, "office").is_none(), "it keeps no shared locks");
        }
    }
}
