//! Locks on etcd.
//!
//! A lock is a queue of places (see `keys`), and all places of a process live with one lease, its session.
//! `transactions` has the commands to the server. `link` has the connection, the permanent watch and the heartbeats,
//! and `supervisor` replaces them.

mod batching;
mod config;
mod diagnosis;
mod errors;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod link;
mod listing;
mod places;
mod seats;
mod session;
mod supervisor;
mod taking_over;
mod tls;
mod transactions;
mod url;
mod waiting;

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::Txn;
use tokio::sync::Notify;

use config::Config;
use distlock_store::engine::{Failure, room};
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::kit::sync::Locked;
use distlock_store::{
    Abilities, Acquire, AcquireReply, Fencing, Finding, KEPT, LeaseRule, List, LockStore, Publish, Release,
    ReleaseReply, Renew, RenewReply, Replace, ReplaceReply, StoreError, StoreEvents, StoredLock, StoredPage,
    Waiting as Waits,
};
use errors::LinkError;
use link::Link;
use places::{Place, QueueState};
use seats::{Learnt, Seat, Seats};
use transactions::{GuardedReply, Left, TxnReply, Wanted};
use waiting::{WaitState, Waiters};

/// The number of keys that one transaction reads. By default, a server accepts 128 (`--max-txn-ops`).
const MOST_TOGETHER: usize = 100;

/// If the places before an owner change while it asks or counts them, it asks again. It also asks again if its place is
/// evicted at that moment.
const MOST_ATTEMPTS: u32 = 4;

/// Locks on an etcd cluster, version 3.4 or later.
pub struct EtcdStore {
    config: Config,
    /// `None`: no commands can be sent.
    link: Locked<Option<Link>>,
    waiting: Locked<Waiters>,
    seats: Locked<Seats>,
    /// Notified once, when the manager has ended.
    closed: Notify,
}

impl EtcdStore {
    /// A store from a URL and the program's options.
    ///
    /// # Errors
    /// A sentence that names the remedy.
    pub fn new(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let config = Config::read(url, options)?;
        Ok(EtcdStore {
            config,
            link: Locked::default(),
            waiting: Locked::default(),
            seats: Locked::default(),
            closed: Notify::new(),
        })
    }

    /// The place of an owner of this process.
    fn seat(&self, key: &Arc<str>, owner: &str) -> Seat {
        self.seats.lock().seat(&self.config.names, key, owner)
    }

    fn linked(&self) -> Result<Link, StoreError> {
        let link = self.link.lock().clone().filter(|link| !link.has_failed());
        link.ok_or_else(|| StoreError::not_sent(format!("not connected to {}", self.config.describe())))
    }

    async fn ask(&self, link: &Link, txn: Txn) -> Result<TxnReply, StoreError> {
        link.txn(txn).await.map_err(|error| error.store)
    }

    /// Sends a transaction for one lock.
    async fn ask_of(&self, link: &Link, key: &Arc<str>, txn: Txn) -> Result<TxnReply, StoreError> {
        link.txn_of(key, txn).await.map_err(|error| error.store)
    }

    /// The content of the reply, if it is for the current session.
    fn counts<T>(&self, link: &Link, answer: GuardedReply<T>) -> Result<T, StoreError> {
        let describe = self.config.describe();
        match answer {
            GuardedReply::Counts(said) => Ok(said),
            GuardedReply::NotOurSession => {
                let error =
                    LinkError::later(format!("{describe}: the session has another connection, or is over"));
                link.report(&error);
                Err(error.store)
            }
            GuardedReply::Garbled => {
                let error = LinkError::unknown(format!("{describe}: an answer that is not understood"));
                link.report(&error);
                Err(error.store)
            }
        }
    }

    async fn places(&self, link: &Link, key: &str) -> Result<QueueState, StoreError> {
        let answer = self.ask(link, transactions::look(&self.config.names.places(key))).await?;
        let seen = transactions::looked(&answer, &self.config.names);
        self.counts(link, seen.map_or(GuardedReply::Garbled, GuardedReply::Counts))
    }

    /// Ends the selected places of a lock. Returns whether there were any.
    async fn evict(
        &self,
        key: &str,
        meant: impl Fn(&QueueState) -> Vec<Place> + Send,
    ) -> Result<bool, StoreError> {
        let link = self.linked()?;
        for _ in 0..MOST_ATTEMPTS {
            let places = meant(&self.places(&link, key).await?);
            if places.is_empty() {
                return Ok(false);
            }
            let mut ended = false;
            for some in places.chunks(MOST_TOGETHER) {
                let answer = self.ask(&link, transactions::evict(&link.epoch, some)).await?;
                ended |= self.counts(&link, transactions::evicted(answer))?;
            }
            if ended {
                return Ok(true);
            }
        }
        Err(StoreError::later(format!("{}: the holders of `{key}` change too fast", self.describe())))
    }

    /// Ends the place of any owner, unless it is kept. Returns whether there was one.
    async fn evict_owner(&self, key: &str, owner: &str) -> Result<ReleaseReply, StoreError> {
        let is_meant = |place: &&Place| place.owner == owner && !place.kept;
        let ended = self.evict(key, |seen| seen.places.iter().find(is_meant).cloned().into_iter().collect());
        Ok(released(ended.await?))
    }

    /// Requests a place, once. `newest`: see [`transactions::ask`].
    async fn try_acquire(&self, request: &Acquire, newest: i64) -> Result<Tried, StoreError> {
        let (names, kind) = (&self.config.names, request.kind);
        let (prefix, owner) = (names.places(&request.key), request.owner.as_str());
        let link = self.linked()?;
        let seat = self.seats.lock().take(names, &request.key, owner, kind);
        let queues = request.queue.is_some();
        let wanted = Wanted { prefix: &prefix, seat: &seat, queues };
        let txn = transactions::ask(&link.epoch, &wanted, newest);
        let answer = self.ask_of(&link, &request.key, txn).await?;
        let seen = self.counts(&link, transactions::seen(answer, &link.epoch, names, &wanted))?;
        let learnt = self.seats.lock().learn(names, &request.key, owner, &seen);
        if learnt == Learnt::News && seen.written.is_none() {
            return Ok(Tried::SeatChanged);
        }
        let position = seen.position(owner, link.epoch.lease);
        if position.is_some_and(|behind| behind < seen.holders().len()) {
            let fence = seen.written.filter(|_| request.fences > 0).and_then(|it| u64::try_from(it).ok());
            let is_new = seen.written.is_some() && !seen.existed;
            return Ok(Tried::Answered(if is_new {
                AcquireReply::Acquired { fence }
            } else {
                AcquireReply::AlreadyHeld { fence }
            }));
        }
        if let Some(found) = seen.other_kind(kind).filter(|_| position.is_none()) {
            return Ok(Tried::Answered(AcquireReply::WrongKind { found }));
        }
        if let Some(behind) = position.filter(|_| queues)
            && let Some(own) = seen.places.get(behind)
        {
            let in_the_way = seen.in_the_way(behind, kind);
            let before = in_the_way.map(|place| (place.seat.clone(), place.create_revision)).collect();
            let own = (own.seat.clone(), own.create_revision);
            let waits = self.waiting.lock().stands_behind(&request.key, owner, own, before, room(kind));
            if waits == WaitState::Comes {
                return Ok(Tried::TurnCame);
            }
        }
        if let Some(youngest) = seen.places.last()
            && position.is_none()
            && seen.has_room(kind)
        {
            return Ok(Tried::HasRoom { newest: youngest.create_revision });
        }
        let behind = position.unwrap_or(seen.places.len());
        Ok(Tried::Answered(AcquireReply::Busy(seen.busy(owner, behind))))
    }

    /// Requests a place until it is decided whether the owner holds the lock.
    async fn acquire_seated(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let owner = request.owner.as_str();
        let (mut newest, mut has_place, mut failed) = (0, false, None);
        for _ in 0..MOST_ATTEMPTS {
            if request.queue.is_some() {
                // Before the request is sent, because the places before this one may end before the reply arrives.
                self.waiting.lock().asks(&request.key, owner);
            }
            match self.try_acquire(request, newest).await {
                Ok(Tried::TurnCame) => (newest, has_place) = (0, true),
                Ok(Tried::SeatChanged) => newest = 0,
                Ok(Tried::HasRoom { newest: youngest }) => newest = youngest,
                Ok(Tried::Answered(reply)) => {
                    // Otherwise it waits for the notification.
                    if !matches!(reply, AcquireReply::Busy(_)) {
                        self.waiting.lock().goes(&request.key, owner);
                    }
                    return Ok(reply);
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.waiting.lock().goes(&request.key, owner);
        let too_fast = || format!("{}: others come and go faster than distlock can ask", self.describe());
        let error = failed.unwrap_or_else(|| StoreError::later(too_fast()));
        // A place that was taken before still exists, whatever the result of the last transaction is.
        Err(if has_place { StoreError::unknown(error.to_string()) } else { error })
    }

    /// Keeps the place of an owner of this process taken for this long. `None`: the time is over already.
    async fn keep(
        &self,
        key: &Arc<str>,
        owner: &str,
        time: Duration,
    ) -> Result<Option<ReleaseReply>, StoreError> {
        let (link, names, seat) = (self.linked()?, &self.config.names, self.seat(key, owner));
        // This lease lasts for that time, because no task renews it.
        let lease = link.grant(transactions::lease_ttl(time)).await.map_err(|error| error.store)?;
        let Some(answer) = link.txn_with_lease(transactions::keep(&link.epoch, &seat, lease)).await? else {
            return Ok(None);
        };
        let left = self.counts(&link, transactions::left(&answer, &link.epoch, names))?;
        Ok(Some(released(left == Left::Done)))
    }

    /// Ends the place of an owner.
    async fn leave(&self, key: &Arc<str>, owner: &str) -> Result<ReleaseReply, StoreError> {
        let (link, seat) = (self.linked()?, self.seat(key, owner));
        let answer = self.ask_of(&link, key, transactions::leave(&link.epoch, &seat)).await?;
        match self.counts(&link, transactions::left(&answer, &link.epoch, &self.config.names))? {
            Left::Done => Ok(ReleaseReply::Released),
            // It may belong to another session. Or its owner has taken it over, or has handed it over and no process
            // took it. (Boxed, because callers poll this on threads with small stacks.)
            Left::Found(_) => Box::pin(self.evict_owner(key, owner)).await,
        }
    }
}

fn released(ended: bool) -> ReleaseReply {
    if ended { ReleaseReply::Released } else { ReleaseReply::NotHeld }
}

/// The result of a request for a place.
enum Tried {
    Answered(AcquireReply),
    /// Enough of the places before it are gone, so it holds the lock. Or its own place is gone.
    TurnCame,
    /// The seat of the owner differs from what the request was based on. Nothing was done.
    SeatChanged,
    /// It has no place. There was room for another one after the youngest place, which has this revision.
    HasRoom {
        newest: i64,
    },
}

impl LockStore for EtcdStore {
    fn abilities(&self) -> Abilities {
        Abilities::default()
            .shared()
            .limited()
            .min_hold()
            .fencing(Fencing::OneByOne)
            .waiting(Waits::Queued)
            .lease(LeaseRule::Session)
            .renews_together(MOST_TOGETHER)
            .connects_within(self.config.connect_timeout)
            .lists()
            .publishes()
            .replaces()
    }

    fn describe(&self) -> String {
        self.config.describe()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let reply = self.acquire_seated(request).await;
        let is_unknown = reply.as_ref().is_err_and(|error| error.kind == Failure::Unknown);
        let (mut seats, owner) = (self.seats.lock(), request.owner.as_str());
        match is_unknown {
            true => seats.lose_reply(&request.key, owner),
            false => seats.forget_free(&request.key, owner),
        }
        drop(seats);
        reply
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let replies = self.renew_all(std::slice::from_ref(request)).await?;
        Ok(replies.first().copied().unwrap_or(RenewReply::NotHeld))
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        let place = |request: &Renew| self.seat(&request.key, request.owner.as_str()).place;
        let places: Vec<String> = requests.iter().map(place).collect();
        let link = self.linked()?;
        let answer = self.ask(&link, transactions::read(&places)).await?;
        let owners = requests.iter().map(|request| request.owner.as_str());
        let held = transactions::held(&answer, &link.epoch, &self.config.names, owners);
        let reply = |(held, Renew { key, owner, .. }): (bool, &Renew)| {
            if held {
                return RenewReply::Renewed;
            }
            // The owner no longer holds the lock, so no release needs this entry.
            self.seats.lock().forget(key, owner.as_str());
            RenewReply::NotHeld
        };
        Ok(held.into_iter().zip(requests).map(reply).collect())
    }

    async fn hand_over(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        self.detach(request).await
    }

    async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        self.take_over(request).await
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let owner = request.owner.as_str();
        if owner == KEPT {
            let kept = |seen: &QueueState| seen.holders().iter().find(|holder| holder.kept).cloned();
            return Ok(released(self.evict(&request.key, |seen| kept(seen).into_iter().collect()).await?));
        }
        self.waiting.lock().goes(&request.key, owner);
        let kept = match request.keep {
            Some(time) => self.keep(&request.key, owner, time).await?,
            None => None,
        };
        let released = match kept {
            Some(reply) => reply,
            None => self.leave(&request.key, owner).await?,
        };
        self.seats.lock().forget(&request.key, owner);
        Ok(released)
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let link = self.linked()?;
        match self.places(&link, key).await?.stored() {
            Some(lock) => {
                let lock = self.with_details(&link, lock).await?;
                self.with_published(&link, key, lock).await.map(Some)
            }
            None => Ok(None),
        }
    }

    async fn publish(&self, request: &Publish) -> Result<(), StoreError> {
        let (link, names, owner) = (self.linked()?, &self.config.names, request.owner.as_str());
        let text = format!("{owner}\n{}", request.value);
        let seat = self.seat(&request.key, owner);
        let txn = transactions::publish(&link.epoch, &seat, &names.published(&request.key), &text);
        let answer = self.ask(&link, txn).await?;
        // Without its place, nothing reads the text.
        let _left = self.counts(&link, transactions::left(&answer, &link.epoch, names))?;
        Ok(())
    }

    async fn unpublish(&self, request: &Publish) -> Result<(), StoreError> {
        let (link, name) = (self.linked()?, self.config.names.published(&request.key));
        let txn = transactions::unpublish(&link.epoch, &name, request.owner.as_str());
        let answer = self.ask(&link, txn).await?;
        let _was_there = self.counts(&link, transactions::evicted(answer))?;
        Ok(())
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        self.page(request).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        self.examine().await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        self.evict(key, |seen| seen.holders().to_vec()).await
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        // After a panic, `run` is called again.
        *self.link.lock() = None;
        self.waiting.lock().clear();
        tokio::select! {
            () = self.supervise(&events) => {}
            () = self.closed.notified() => {}
        }
        // The watch and the heartbeats have ended, and no new session begins.
        pending().await
    }

    async fn close(&self) {
        let link = self.link.lock().take();
        self.closed.notify_one();
        if let Some(link) = link {
            // If this fails, the session expires, because no task keeps it alive.
            drop(link.end_session().await);
        }
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("config", &self.config).finish_non_exhaustive()
    }
}
