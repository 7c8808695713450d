//! Watching who leads.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Lead;
use super::state::State;
use crate::error::LockError;
use crate::key::LockKey;
use crate::manager::{LockClient, LockHolder, LockManager, holder};
use crate::request::LockRequest;
use distlock_store::FencingToken;
use distlock_store::clock;
use distlock_store::engine::Time;

/// How often the store is asked, while somebody awaits a change; after a change sooner, because the next one may
/// follow: a leader after nobody, or the value of a leader.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_INTERVAL_AFTER_CHANGE: Duration = Duration::from_millis(50);
/// How often, while the end of the term is awaited: for what becomes known of the leader later.
const WHILE_TOLD: Duration = Duration::from_secs(15);
/// Of the requests of those who watch.
const LABEL: &str = "leader watch";

/// The lock of a term: the leader holds it alone, and who watches waits for it as a reader. No other term has it, so
/// one that is to be had says that the term is over, however late it is asked for.
pub(super) fn term_key(office: &str, owner: &str) -> String {
    format!("{office}:{owner}")
}

/// Who leads, as far as is known.
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
    /// This candidate.
    #[non_exhaustive]
    Here {
        /// The number of its term.
        term: FencingToken,
    },
    /// Another one.
    #[non_exhaustive]
    Elsewhere {
        /// Its owner token, `dl1:<client>:<number>`: another one for each term.
        owner: String,
        /// Its process, as far as the store knows it: host, process id and program on Redis, etcd and PostgreSQL, the
        /// id alone on others. A leader that has only just connected may be reported once more when they are known.
        /// `None`: the token is not one of this library's.
        client: Option<LockClient>,
        /// What it publishes; see [`Candidate::value`](super::Candidate::value). A leader that has only just begun may
        /// be reported once more when it is written.
        value: Option<String>,
    },
    /// Nobody.
    Vacant,
    /// The store cannot be asked.
    Unknown,
}

/// Reports who leads; see [`Candidate::watch`](super::Candidate::watch).
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
    /// The owner token of this candidate's latest term.
    own: Option<String>,
    /// The owner token of the latest leader, and how many there have been.
    latest: Option<String>,
    terms_seen: u64,
    /// When the store is to be asked, and how long after that once more.
    due: Time,
    pause: Duration,
    /// The lock of this term was to be had, so its end is not awaited any more.
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
            own: None,
            latest: None,
            terms_seen: 0,
            due: clock::now(),
            pause: POLL_INTERVAL_AFTER_CHANGE,
            is_over: false,
        }
    }

    /// Returns who leads as soon as that is not what it returned before; the first call returns at once. Terms of this
    /// candidate are reported when they begin and end. The end of a term of another one that
    /// [publishes](super::Candidate::value) is reported by the store, as to all who wait for a lock. Otherwise, and
    /// while nobody leads, the store is asked once a second. All of that happens only while this future is awaited; a
    /// term that is shorter may be missed.
    ///
    /// What it returns is news, not a permission: only [`is_leader`](super::Candidate::is_leader) and the term say who
    /// may act.
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
            let known = match self.state.lead() {
                Some(lead) => {
                    self.own = Some(lead.owner());
                    Some(Leadership::Here { term: lead.term() })
                }
                None if self.asks_now() => Some(self.ask().await),
                None => None,
            };
            if let Some(known) = known
                && self.reported.as_ref() != Some(&known)
            {
                self.count(&known);
                (self.is_over, self.pause) = (false, POLL_INTERVAL_AFTER_CHANGE);
                self.reported = Some(known.clone());
                return known;
            }
            self.until_due().await;
        }
    }

    /// How many terms this watch has reported: one for each leader, also if the same process leads again. Over all
    /// candidates, the metric `distlock_leader_terms_total` counts every term, also those that no watch has seen.
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

    fn count(&mut self, known: &Leadership) {
        let leader = match known {
            Leadership::Here { .. } => self.own.as_ref(),
            Leadership::Elsewhere { owner, .. } => Some(owner),
            Leadership::Vacant | Leadership::Unknown => None,
        };
        if let Some(leader) = leader.filter(|leader| self.latest.as_ref() != Some(leader)) {
            self.latest = Some(leader.clone());
            self.terms_seen += 1;
        }
    }

    /// After a term of its own the store is asked at once.
    fn asks_now(&self) -> bool {
        clock::now() >= self.due || matches!(self.reported, Some(Leadership::Here { .. }))
    }

    async fn ask(&mut self) -> Leadership {
        self.due = clock::now().after(self.pause);
        self.pause = (self.pause * 2).min(POLL_INTERVAL);
        let Ok(key) = &self.key else { return Leadership::Unknown };
        match self.manager.look_up(key).await {
            // Its release is under way.
            Ok(Some(found)) if self.own.as_deref() == Some(found.first_holder()) => Leadership::Vacant,
            Ok(Some(found)) => {
                let LockHolder { token, client, value, .. } = holder(&found);
                // What it counts is no news of who leads.
                let client = client.map(|client| LockClient { busy: None, lost: None, ..client });
                Leadership::Elsewhere { owner: token, client, value }
            }
            Ok(None) => Leadership::Vacant,
            Err(_) => Leadership::Unknown,
        }
    }

    /// Becomes ready when the term is over that was reported last, or when that cannot be awaited: the store is then
    /// asked. `None`: its leader publishes nothing, or the end was told already.
    fn end_of_term(&self) -> Option<LockRequest> {
        let Some(Leadership::Elsewhere { owner, value: Some(_), .. }) = &self.reported else { return None };
        let key = self.key.as_ref().ok().filter(|_| !self.is_over)?;
        let request = self.manager.lock(term_key(key.as_str(), owner)).shared().wait_forever();
        Some(request.max_waiters(u32::MAX).linger(None).label(LABEL))
    }

    async fn until_due(&mut self) {
        // A term here whose end nobody reports, because its body does not await, is looked at as often.
        let pause = self.due.duration_since(clock::now()).max(Duration::from_millis(1));
        let pause = if self.state.lead().is_some() { POLL_INTERVAL } else { pause };
        let end = self.end_of_term();
        let pause = if end.is_some() { WHILE_TOLD } else { pause };
        let told = async {
            match end {
                Some(end) => drop(end.acquire().await),
                None => pending().await,
            }
        };
        tokio::select! {
            () = told => (self.is_over, self.due) = (true, clock::now()),
            () = self.manager.core().sleep(pause) => self.due = clock::now(),
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
