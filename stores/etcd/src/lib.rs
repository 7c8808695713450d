//! Locks on etcd.
//!
//! A lock is a queue of places (see `keys`), and all places of a process live with one lease, its session. What is
//! asked of the server is in `transactions`; the connection, the standing watch and the heartbeats are in `link`,
//! and `supervisor` replaces them.

mod config;
mod errors;
mod keys;
mod link;
mod listing;
mod session;
mod supervisor;
mod tls;
mod together;
mod transactions;
mod url;
mod waiting;

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etcd_client::Txn;
use tokio::sync::Notify;

use config::Config;
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::{
    Abilities, Ability, Acquire, AcquireReply, Busy, Fencing, KEPT, LeaseRule, List, LockStore, Release,
    ReleaseReply, Renew, RenewReply, StoreError, StoreEvents, StoredLock, StoredPage, Waiting as Waits,
};
use errors::Trouble;
use link::Link;
use transactions::{Answer, Place, Said, Seen};
use waiting::{Turn, Waiting};

/// So many keys are read by one transaction; a server takes 128 if it is not told otherwise (`--max-txn-ops`).
const MOST_TOGETHER: usize = 100;

/// Why locks with several holders are refused.
const CANNOT_COUNT: &str = "it compares keys and cannot count them, so an attempt that does not wait would have to take \
                            a place and give it back, and others would be turned away meanwhile";

/// Where all before an owner go while it asks, it asks again; and so does somebody whose place is evicted just then.
const MOST_ATTEMPTS: u32 = 4;

/// Locks on an etcd cluster, version 3.4 or later.
pub struct EtcdStore {
    config: Config,
    /// `None`: no commands can be sent.
    link: Mutex<Option<Link>>,
    waiting: Mutex<Waiting>,
    /// Told once that the manager has ended.
    closed: Notify,
}

impl EtcdStore {
    /// From a URL, and what the program says beside it.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    pub fn new(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let config = Config::read(url, options)?;
        Ok(EtcdStore { config, link: Mutex::default(), waiting: Mutex::default(), closed: Notify::new() })
    }

    fn link(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn linked(&self) -> Result<Link, StoreError> {
        let link = self.link().clone();
        link.ok_or_else(|| StoreError::not_sent(format!("not connected to {}", self.config.describe())))
    }

    async fn ask(&self, link: &Link, txn: Txn) -> Result<Said, StoreError> {
        link.txn(txn).await.map_err(|trouble| trouble.error)
    }

    /// About one lock.
    async fn ask_of(&self, link: &Link, key: &Arc<str>, txn: Txn) -> Result<Said, StoreError> {
        link.txn_of(key, txn).await.map_err(|trouble| trouble.error)
    }

    /// What the answer says, if it was given to the session that we have.
    fn counts<T>(&self, link: &Link, answer: Answer<T>) -> Result<T, StoreError> {
        let describe = self.config.describe();
        match answer {
            Answer::Counts(said) => Ok(said),
            Answer::NotOurSession => {
                let trouble =
                    Trouble::later(format!("{describe}: the session has another connection, or is over"));
                link.heard(&trouble);
                Err(trouble.error)
            }
            Answer::Garbled => {
                let trouble = Trouble::unknown(format!("{describe}: an answer that is not understood"));
                link.heard(&trouble);
                Err(trouble.error)
            }
        }
    }

    async fn places(&self, link: &Link, key: &str) -> Result<Seen, StoreError> {
        let answer = self.ask(link, transactions::look(&self.config.names.places(key))).await?;
        let seen = transactions::looked(&answer, &self.config.names);
        self.counts(link, seen.map_or(Answer::Garbled, Answer::Counts))
    }

    /// Ends the place of the holder, if it is one that is meant. Whether there was one.
    async fn evict(&self, key: &str, is_meant: impl Fn(&Place) -> bool + Send) -> Result<bool, StoreError> {
        let link = self.linked()?;
        for _ in 0..MOST_ATTEMPTS {
            let seen = self.places(&link, key).await?;
            let Some(first) = seen.places.first().filter(|first| is_meant(first)) else { return Ok(false) };
            let txn = transactions::evict(&link.epoch, &first.name, first.create_revision);
            let answer = self.ask(&link, txn).await?;
            if self.counts(&link, transactions::done(&answer, &link.epoch))? {
                return Ok(true);
            }
        }
        Err(StoreError::later(format!("{}: the holders of `{key}` change too fast", self.describe())))
    }

    /// Asks for a place, once.
    async fn try_acquire(&self, request: &Acquire) -> Result<Tried, StoreError> {
        let names = &self.config.names;
        let (prefix, owner) = (names.places(&request.key), request.owner.as_str());
        let place = names.place(&request.key, owner);
        let link = self.linked()?;
        let queues = request.queue.is_some();
        let txn = if queues {
            transactions::join(&link.epoch, &prefix, &place)
        } else {
            transactions::enter(&link.epoch, &prefix, &place)
        };
        let answer = self.ask_of(&link, &request.key, txn).await?;
        let seen = self.counts(&link, transactions::seen(answer, &link.epoch, names, (&place, owner)))?;
        let behind = match seen.position(owner) {
            Some(0) => {
                let fence = seen.written.filter(|_| request.fences > 0).and_then(|it| u64::try_from(it).ok());
                return Ok(Tried::Answered(if seen.existed {
                    AcquireReply::AlreadyHeld { fence }
                } else {
                    AcquireReply::Acquired { fence }
                }));
            }
            Some(behind) => behind,
            None => seen.places.len(),
        };
        if queues {
            let before = seen.places.iter().take(behind).map(|place| place.owner.clone()).collect();
            if self.waiting().stands_behind(&request.key, owner, before) == Turn::Comes {
                return Ok(Tried::TurnCame);
            }
        }
        Ok(Tried::Answered(AcquireReply::Busy(seen.busy(behind).unwrap_or_else(Busy::by_somebody))))
    }
}

/// What came of asking for a place.
enum Tried {
    Answered(AcquireReply),
    /// All who stood before it have gone since.
    TurnCame,
}

impl LockStore for EtcdStore {
    fn abilities(&self) -> Abilities {
        Abilities::default()
            .min_hold()
            .fencing(Fencing::OneByOne)
            .waiting(Waits::Queued)
            .polled_by_callers()
            .lease(LeaseRule::Session)
            .renews_together(MOST_TOGETHER)
            .lacks(Ability::Shared, CANNOT_COUNT)
            .lacks(Ability::Limited, CANNOT_COUNT)
            .connects_within(self.config.connect_timeout)
            .lists()
    }

    fn describe(&self) -> String {
        self.config.describe()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let owner = request.owner.as_str();
        for _ in 0..MOST_ATTEMPTS {
            if request.queue.is_some() {
                // Before it is sent: those before us may go before the answer is here.
                self.waiting().asks(&request.key, owner);
            }
            match self.try_acquire(request).await {
                Ok(Tried::TurnCame) => {}
                Ok(Tried::Answered(reply)) => {
                    if reply.is_acquired() {
                        self.waiting().goes(&request.key, owner);
                    }
                    return Ok(reply);
                }
                Err(error) => {
                    self.waiting().goes(&request.key, owner);
                    return Err(error);
                }
            }
        }
        self.waiting().goes(&request.key, owner);
        Err(StoreError::later(format!("{}: others come and go faster than we can ask", self.describe())))
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let replies = self.renew_all(std::slice::from_ref(request)).await?;
        Ok(replies.first().copied().unwrap_or(RenewReply::NotHeld))
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        let names = &self.config.names;
        let place = |request: &Renew| names.place(&request.key, request.owner.as_str());
        let places: Vec<String> = requests.iter().map(place).collect();
        let link = self.linked()?;
        let answer = self.ask(&link, transactions::read(&places)).await?;
        let held = transactions::held(&answer, &link.epoch);
        let reply = |held: bool| if held { RenewReply::Renewed } else { RenewReply::NotHeld };
        Ok(held.into_iter().map(reply).collect())
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let owner = request.owner.as_str();
        if owner == KEPT {
            let ended = self.evict(&request.key, |first| first.kept).await?;
            return Ok(if ended { ReleaseReply::Released } else { ReleaseReply::NotHeld });
        }
        self.waiting().goes(&request.key, owner);
        let link = self.linked()?;
        let place = self.config.names.place(&request.key, owner);
        let txn = match request.keep {
            None => transactions::leave(&link.epoch, &place),
            Some(time) => {
                // It keeps itself alive for that time, and nobody else does.
                let lease =
                    link.grant(transactions::lease_ttl(time)).await.map_err(|trouble| trouble.error)?;
                transactions::keep(&link.epoch, &place, lease)
            }
        };
        let answer = match request.keep {
            None => self.ask_of(&link, &request.key, txn).await?,
            // Refused if its lease has ended, and then the others with it.
            Some(_) => self.ask(&link, txn).await?,
        };
        let found = self.counts(&link, transactions::done(&answer, &link.epoch))?;
        Ok(if found { ReleaseReply::Released } else { ReleaseReply::NotHeld })
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let link = self.linked()?;
        match self.places(&link, key).await?.stored() {
            Some(lock) => self.with_details(&link, lock).await.map(Some),
            None => Ok(None),
        }
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        self.page(request).await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        self.evict(key, |_| true).await
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        // After a panic it is called again.
        *self.link() = None;
        self.waiting().clear();
        tokio::select! {
            () = self.supervise(&events) => {}
            () = self.closed.notified() => {}
        }
        // The watch and the heartbeats are ended, and no session is begun any more.
        pending().await
    }

    async fn close(&self) {
        let link = self.link().take();
        self.closed.notify_one();
        if let Some(link) = link {
            // If this fails, the session ends by itself, since nobody keeps it alive.
            drop(link.end_session().await);
        }
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("config", &self.config).finish_non_exhaustive()
    }
}
