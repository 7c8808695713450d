//! Locks on ZooKeeper.
//!
//! A lock is a node, and below it every owner who holds it, or waits for it, has a place (see `names`): the first
//! place is the holder's. All places of a process live as long as its `session`, which the `supervisor` keeps.
//! Who waits watches the place before its own (see `queue`).

mod config;
mod errors;
mod listing;
mod names;
mod places;
mod queue;
mod session;
mod supervisor;

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use zookeeper_client::{Client, CreateMode, Error, Stat};

use config::Config;
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::{
    Abilities, Ability, Acquire, AcquireReply, Fencing, LeaseRule, List, LockStore, Owner, Release,
    ReleaseReply, Renew, RenewReply, StoreError, StoreEvents, StoredLock, StoredPage, Waiting,
};
use errors::{Place, may_be_done};
use names::PlaceName;
use places::{Came, Known, Left, Places};
use queue::{Follower, Seen};
use session::{Session, create_below};

/// So many leases are renewed by questions that are sent together.
const MOST_TOGETHER: usize = 100;

/// Where the place or the node of the lock goes while an owner asks for it, it asks again.
const MOST_ATTEMPTS: u32 = 4;

/// The server counts the places of a lock in 32 bits; some are left for those who ask at the same time.
const LAST_NUMBER: i64 = i32::MAX as i64 - 100_000;

/// Why locks with several holders are refused.
const ONE_AFTER_THE_OTHER: &str = "who waits watches the one before it and nobody else, so that each release wakes one \
                                   process; with several holders it would have to watch them all";

/// Why a key is not kept after its release.
const NOTHING_ENDS_BY_ITSELF: &str = "nodes with a ttl are switched off in most ensembles, and a node without would keep \
                                      the key taken if the process ended before that time";

/// What a holder writes to its place by the command that deletes it, for the one who watches it.
const HANDED_ON: &[u8] = b"handed on";

/// Locks on a ZooKeeper ensemble, version 3.5 or later.
pub struct ZooKeeperStore {
    config: Config,
    /// `None`: no commands can be sent.
    link: Mutex<Option<Link>>,
    places: Arc<Mutex<Places>>,
    /// Told once that the manager has ended.
    closed: Notify,
}

/// The session, while it has a connection.
#[derive(Clone)]
struct Link {
    client: Client,
    session: i64,
    /// The path of the session's node.
    node: String,
    events: StoreEvents,
}

impl Link {
    fn new(session: &Session, events: &StoreEvents) -> Link {
        let node = session.node().to_owned();
        Link { client: session.client.clone(), session: session.id, node, events: events.clone() }
    }
}

impl ZooKeeperStore {
    /// From a URL, and what the program says beside it.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    pub fn new(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let config = Config::read(url, options)?;
        Ok(ZooKeeperStore { config, link: Mutex::default(), places: Arc::default(), closed: Notify::new() })
    }

    fn link(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn linked(&self) -> Result<Link, StoreError> {
        let link = self.link().clone();
        link.ok_or_else(|| self.place().not_connected())
    }

    fn place(&self) -> Place {
        self.config.place()
    }

    fn error(&self, path: &str, error: &Error) -> StoreError {
        self.place().error(path, error)
    }

    /// A place for an owner who has none.
    async fn enter(&self, link: &Link, request: &Acquire) -> Result<Tried, StoreError> {
        let (key, owner, lock) = (&request.key, &request.owner, self.config.names.lock(&request.key));
        let prefix = format!("{lock}/{}", PlaceName::prefix(owner.as_str(), link.session));
        self.places().asks(key, owner, link.session);
        // Both are sent at once, and carried out in this order.
        let options = CreateMode::EphemeralSequential.with_acls(self.config.acls());
        let created = link.client.create(&prefix, b"", &options);
        let listed = link.client.get_children(&lock);
        let (created, listed) = tokio::join!(created, listed);
        let (stat, sequence) = match created {
            Ok(created) => created,
            Err(error) => {
                if !may_be_done(&error) {
                    self.places().goes(key, owner, link.session);
                }
                if error != Error::NoNode {
                    return Err(self.error(&lock, &error));
                }
                self.make_lock(link, &lock).await?;
                return Ok(Tried::Changed);
            }
        };
        let name = PlaceName::of(owner.as_str(), link.session, sequence, sequence.into_i64());
        self.places().stands(key, owner, link.session, &name);
        if name.number > LAST_NUMBER {
            return self.is_used_up(link, request, &lock).await;
        }
        let (names, parent) = listed.map_err(|error| self.error(&lock, &error))?;
        let seen = Seen::read(names);
        match seen.position(&name) {
            None => {
                self.places().goes(key, owner, link.session);
                Ok(Tried::Changed)
            }
            Some(0) => {
                self.places().comes(key, owner, Came::AtOnce);
                let fence = fence(request, parent.pzxid.max(stat.czxid));
                Ok(Tried::Answered(AcquireReply::Acquired { fence }))
            }
            Some(behind) => self.stands_behind(link, request, name, seen, behind).await,
        }
    }

    /// An owner who may have a place asks again.
    async fn ask_again(&self, link: &Link, request: &Acquire) -> Result<Tried, StoreError> {
        let (key, owner, lock) = (&request.key, &request.owner, self.config.names.lock(&request.key));
        let seen = self.list(link, &lock).await?;
        let Some(name) = seen.find(&PlaceName::prefix(owner.as_str(), link.session)) else {
            self.places().goes(key, owner, link.session);
            return Ok(Tried::Changed);
        };
        self.places().stands(key, owner, link.session, &name);
        match seen.position(&name) {
            // Its turn came after the queue was read, and it was told: it is not told the contrary now.
            Some(behind) if behind > 0 && self.places().has_come(key, owner) => Ok(Tried::Changed),
            Some(behind) if behind > 0 => self.stands_behind(link, request, name, seen, behind).await,
            _ => {
                // A member that lags behind may not have heard yet that the place was taken away.
                let Some(number) = self.confirm(link, &name.path(&lock), Confirmed::of(request)).await?
                else {
                    self.places().goes(key, owner, link.session);
                    return Ok(Tried::Changed);
                };
                self.places().comes(key, owner, Came::AtOnce);
                Ok(Tried::Answered(AcquireReply::AlreadyHeld { fence: fence(request, number) }))
            }
        }
    }

    /// Asks the leader whether a place is still there: `None` if not, else the number of a change, as `confirmed` says.
    async fn confirm(
        &self,
        link: &Link,
        path: &str,
        confirmed: Confirmed,
    ) -> Result<Option<i64>, StoreError> {
        if confirmed == Confirmed::Place {
            let synced = link.client.sync(path);
            let found = link.client.check_stat(path);
            let (synced, found) = tokio::join!(synced, found);
            let found = synced.and(found).map_err(|error| self.error(path, &error))?;
            return Ok(found.map(|stat| stat.czxid));
        }
        let mut writer =
            link.client.new_check_writer(path, None).map_err(|error| self.error(path, &error))?;
        writer.add_set_data(&link.node, b"", None).map_err(|error| self.error(path, &error))?;
        match writer.commit().await {
            Ok(results) => match results.as_slice() {
                [zookeeper_client::MultiWriteResult::SetData { stat }] => Ok(Some(stat.mzxid)),
                _ => Err(self.place().odd("an answer that is not understood")),
            },
            Err(zookeeper_client::CheckWriteError::CheckFailed { source: Error::NoNode }) => Ok(None),
            Err(error) => Err(self.error(path, &Error::from(error))),
        }
    }

    /// Somebody else is the first.
    async fn stands_behind(
        &self,
        link: &Link,
        request: &Acquire,
        name: PlaceName,
        seen: Seen,
        behind: usize,
    ) -> Result<Tried, StoreError> {
        let (key, owner, lock) = (&request.key, &request.owner, self.config.names.lock(&request.key));
        let busy = AcquireReply::Busy(seen.busy(owner.as_str(), behind));
        if request.queue.is_none() {
            self.delete(link, &name.path(&lock)).await?;
            // Not before: as long as the place may be there, the owner that asks again stands at it, and at no other.
            self.places().goes(key, owner, link.session);
        } else if !self.places().is_awaited(key, owner) {
            let follower = Follower {
                client: link.client.clone(),
                events: link.events.clone(),
                places: self.places.clone(),
                key: key.clone(),
                owner: owner.clone(),
                lock,
                place: name,
                is_fenced: request.fences > 0,
            };
            let task = tokio::spawn(follower.follow(seen.before(behind)));
            self.places().awaits(key, owner, task.abort_handle());
        }
        Ok(Tried::Answered(busy))
    }

    /// The node of a lock, which goes by itself when nobody uses it any more.
    async fn make_lock(&self, link: &Link, lock: &str) -> Result<(), StoreError> {
        let options = CreateMode::Container.with_acls(self.config.acls());
        create_below(&self.config, &link.client, lock, &self.config.names.locks(), &options).await
    }

    /// The numbers of the lock's places have come to their end: behind this one the order would not be known.
    async fn is_used_up(&self, link: &Link, request: &Acquire, lock: &str) -> Result<Tried, StoreError> {
        let release = Release::new(request.key.clone(), &request.owner);
        self.give_up(link, &release).await?;
        Err(StoreError::refused(format!(
            "{}: `{lock}` has had {LAST_NUMBER} places, which is all that ZooKeeper can number: delete it while nobody \
             uses the lock, or use another key",
            self.config.describe()
        )))
    }

    async fn list(&self, link: &Link, lock: &str) -> Result<Seen, StoreError> {
        match link.client.list_children(lock).await {
            Ok(names) => Ok(Seen::read(names)),
            Err(Error::NoNode) => Ok(Seen::read(Vec::new())),
            Err(error) => Err(self.error(lock, &error)),
        }
    }

    /// The queue as the leader knows it now.
    async fn list_now(&self, link: &Link, lock: &str) -> Result<Seen, StoreError> {
        let (synced, seen) = tokio::join!(link.client.sync(lock), self.list(link, lock));
        synced.map_err(|error| self.error(lock, &error))?;
        seen
    }

    /// Whether it was there.
    async fn delete(&self, link: &Link, path: &str) -> Result<bool, StoreError> {
        match link.client.delete(path, None).await {
            Ok(()) => Ok(true),
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(self.error(path, &error)),
        }
    }

    /// Deletes the place of a holder, so that who watches it knows that it was the first.
    async fn hand_on(&self, link: &Link, path: &str) -> Result<bool, StoreError> {
        let mut writer = link.client.new_multi_writer();
        let added = writer.add_set_data(path, HANDED_ON, None).and_then(|()| writer.add_delete(path, None));
        added.map_err(|error| self.error(path, &error))?;
        match writer.commit().await.map_err(Error::from) {
            Ok(_) => Ok(true),
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(self.error(path, &error)),
        }
    }

    /// Deletes the place of an owner, wherever it stands. Whether there was one.
    async fn give_up(&self, link: &Link, request: &Release) -> Result<bool, StoreError> {
        let (key, owner, lock) = (&request.key, &request.owner, self.config.names.lock(&request.key));
        let known = self.places().goes(key, owner, link.session);
        match known {
            Some(Left { name, came: Some(Came::InTurn) }) => self.hand_on(link, &name.path(&lock)).await,
            Some(Left { name, .. }) => self.delete(link, &name.path(&lock)).await,
            None => match self.find(link, owner, &lock).await? {
                Some(name) => self.delete(link, &name.path(&lock)).await,
                None => Ok(false),
            },
        }
    }

    /// The place of an owner, if it has one: in whichever session, of whichever process.
    async fn find(&self, link: &Link, owner: &Owner, lock: &str) -> Result<Option<PlaceName>, StoreError> {
        let seen = self.list_now(link, lock).await?;
        Ok(seen.places.into_iter().find(|place| place.owner() == owner.as_str()))
    }
}

/// What the leader is to say of a place that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Confirmed {
    /// That it is: the number is that of its creation.
    Place,
    /// A number above all that were handed out.
    FencingToken,
}

impl Confirmed {
    fn of(request: &Acquire) -> Self {
        if request.fences > 0 { Confirmed::FencingToken } else { Confirmed::Place }
    }
}

/// What came of asking for a place.
enum Tried {
    Answered(AcquireReply),
    /// Something was changed meanwhile.
    Changed,
}

/// The number, if one is wanted.
fn fence(request: &Acquire, zxid: i64) -> Option<u64> {
    u64::try_from(zxid).ok().filter(|_| request.fences > 0)
}

fn is_ours(stat: &Stat, session: i64) -> bool {
    stat.ephemeral_owner == session
}

impl LockStore for ZooKeeperStore {
    fn abilities(&self) -> Abilities {
        Abilities::default()
            .fencing(Fencing::OneByOne)
            .waiting(Waiting::Queued)
            .polled_by_callers()
            .lease(LeaseRule::Session)
            .renews_together(MOST_TOGETHER)
            .lists()
            .lacks(Ability::Shared, ONE_AFTER_THE_OTHER)
            .lacks(Ability::Limited, ONE_AFTER_THE_OTHER)
            .lacks(Ability::MinHold, NOTHING_ENDS_BY_ITSELF)
            .connects_within(self.config.connect_timeout)
    }

    fn describe(&self) -> String {
        self.config.describe()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let link = self.linked()?;
        for _ in 0..MOST_ATTEMPTS {
            let known = self.places().known(&request.key, &request.owner, link.session);
            let tried = match known {
                Known::Nothing => self.enter(&link, request).await?,
                Known::Asked | Known::Stands(_) => self.ask_again(&link, request).await?,
            };
            if let Tried::Answered(reply) = tried {
                return Ok(reply);
            }
        }
        let lock = self.config.names.lock(&request.key);
        Err(StoreError::later(format!("{}: `{lock}` changes faster than we can ask", self.describe())))
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let replies = self.renew_all(std::slice::from_ref(request)).await?;
        Ok(replies.first().copied().unwrap_or(RenewReply::NotHeld))
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        let link = self.linked()?;
        // All are sent before the first answer is awaited.
        let asked: Vec<_> = requests
            .iter()
            .map(|Renew { key, owner, .. }| {
                let Known::Stands(name) = self.places().known(key, owner, link.session) else { return None };
                let path = name.path(&self.config.names.lock(key));
                Some((link.client.check_stat(&path), path))
            })
            .collect();
        let mut replies = Vec::with_capacity(requests.len());
        for one in asked {
            let is_held = match one {
                None => false,
                Some((found, path)) => {
                    let found = found.await.map_err(|error| self.error(&path, &error))?;
                    found.is_some_and(|stat| is_ours(&stat, link.session))
                }
            };
            replies.push(if is_held { RenewReply::Renewed } else { RenewReply::NotHeld });
        }
        Ok(replies)
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let link = self.linked()?;
        let found = self.give_up(&link, request).await?;
        Ok(if found { ReleaseReply::Released } else { ReleaseReply::NotHeld })
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let link = self.linked()?;
        Ok(self.list_now(&link, &self.config.names.lock(key)).await?.stored())
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        self.page(&self.linked()?, request).await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        let (link, lock) = (self.linked()?, self.config.names.lock(key));
        for _ in 0..MOST_ATTEMPTS {
            let seen = self.list_now(&link, &lock).await?;
            let Some(first) = seen.places.first() else { return Ok(false) };
            if self.delete(&link, &first.path(&lock)).await? {
                return Ok(true);
            }
        }
        Err(StoreError::later(format!("{}: the holders of `{key}` change too fast", self.describe())))
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        // After a panic it is called again, and the session has ended with the first call.
        *self.link() = None;
        if self.places().clear() {
            events.session_lost();
        }
        tokio::select! {
            () = self.supervise(&events) => {}
            () = self.closed.notified() => {}
        }
        // No session is begun any more.
        pending().await
    }

    async fn close(&self) {
        let link = self.link().take();
        let _some_were_left: bool = self.places().clear();
        self.closed.notify_one();
        let Some(link) = link else { return };
        let mut states = link.client.state_watcher();
        // The client ends its session when nobody has it any more. If that fails, the session ends by itself.
        drop(link);
        while !states.state().is_terminated() {
            states.changed().await;
        }
    }
}

impl fmt::Debug for ZooKeeperStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperStore").field("config", &self.config).finish_non_exhaustive()
    }
}
