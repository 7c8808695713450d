//! Locks on ZooKeeper.
//!
//! A lock is a node. Below it, every owner that holds the lock, or waits for it, has a place (see `names`), which
//! `entering` creates. `queue` decides which places hold the lock. The others wait, and watch the places that exclude
//! them (see `follower`). All places of a process live as long as its `session`, which the `supervisor` keeps alive.

mod config;
mod diagnosis;
mod entering;
mod errors;
mod follower;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod listing;
mod names;
mod places;
mod queue;
mod session;
mod supervisor;
mod taking_over;
mod texts;
mod tickets;

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use tokio::sync::Notify;
use zookeeper_client::{Client, Error, Stat};

use config::Config;
use distlock_store::engine::Failure;
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::kit::sync::Locked;
use distlock_store::{
    Abilities, Ability, Acquire, AcquireReply, Fencing, Finding, LeaseRule, List, LockKind, LockStore,
    Publish, Release, ReleaseReply, Renew, RenewReply, Replace, ReplaceReply, StoreError, StoreEvents,
    StoredLock, StoredPage, Waiting,
};
use errors::Location;
use places::{Came, Known, Left, Places};
use queue::QueueState;
use session::Session;
use tickets::Tickets;

/// The number of leases that are renewed by requests that are sent together.
const MOST_TOGETHER: usize = 100;

/// How often an owner asks if the place or the node of the lock is deleted meanwhile.
const MOST_ATTEMPTS: u32 = 4;

/// Why a key is not kept after its release.
const NOTHING_ENDS_BY_ITSELF: &str = "nodes with a ttl are switched off in most ensembles, and a node without would keep \
                                      the key taken if the process ended before that time";

/// A holder writes this to its place in the command that deletes the place. The waiter that watches the place learns
/// from it that the place was the first.
const HANDED_ON: &[u8] = b"handed on";

/// Locks on a ZooKeeper ensemble, version 3.5 or later.
pub struct ZooKeeperStore {
    config: Config,
    /// `None`: no commands can be sent.
    link: Locked<Option<Link>>,
    places: Arc<Locked<Places>>,
    tickets: Locked<Tickets>,
    /// Notified once, when the manager has ended.
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
    /// A store from a URL and the program's options.
    ///
    /// # Errors
    /// A sentence that names the remedy.
    pub fn new(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let config = Config::read(url, options)?;
        Ok(ZooKeeperStore {
            config,
            link: Locked::default(),
            places: Arc::default(),
            tickets: Locked::default(),
            closed: Notify::new(),
        })
    }

    fn linked(&self) -> Result<Link, StoreError> {
        let link = self.link.lock().clone();
        link.ok_or_else(|| self.place().not_connected())
    }

    fn place(&self) -> Location {
        self.config.place()
    }

    fn error(&self, path: &str, error: &Error) -> StoreError {
        self.place().error(path, error)
    }

    async fn list(&self, link: &Link, lock: &str) -> Result<QueueState, StoreError> {
        match link.client.list_children(lock).await {
            Ok(names) => Ok(QueueState::read(names)),
            Err(Error::NoNode) => Ok(QueueState::read(Vec::new())),
            Err(error) => Err(self.error(lock, &error)),
        }
    }

    /// The present queue of the leader.
    async fn list_now(&self, link: &Link, lock: &str) -> Result<QueueState, StoreError> {
        let (synced, seen) = tokio::join!(link.client.sync(lock), self.list(link, lock));
        synced.map_err(|error| self.error(lock, &error))?;
        seen
    }

    /// Deletes a node. Returns whether it existed.
    async fn delete(&self, link: &Link, path: &str) -> Result<bool, StoreError> {
        match link.client.delete(path, None).await {
            Ok(()) => Ok(true),
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(self.error(path, &error)),
        }
    }

    /// Deletes the place of an exclusive holder in such a way that its watcher knows that it was the first.
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

    /// Deletes the places of an owner, wherever they are in the queue. Returns whether there was one.
    async fn give_up(&self, link: &Link, request: &Release) -> Result<bool, StoreError> {
        let (key, owner, lock) = (&request.key, &request.owner, self.config.names.lock(&request.key));
        if self.places.lock().has_text(key, owner) {
            // If this fails, the text stays until the session ends, and is not shown.
            drop(self.remove_text(key, owner).await);
        }
        let known = self.places.lock().goes(key, owner, link.session);
        match known {
            // Only for an exclusive place. After a reader or one of several holders, others may still exclude the next
            // waiter.
            Some(Left { name, came: Some(Came::InTurn) }) if name.kind == LockKind::Exclusive => {
                self.hand_on(link, &name.path(&lock)).await
            }
            Some(Left { name, .. }) => self.delete(link, &name.path(&lock)).await,
            None => {
                // It may have one place in this session, and another one in a former session that has not ended yet.
                let (seen, mut ended) = (self.list_now(link, &lock).await?, false);
                for place in seen.places.iter().filter(|place| place.owner() == owner.as_str()) {
                    ended |= self.delete(link, &place.path(&lock)).await?;
                }
                Ok(ended)
            }
        }
    }

    /// Requests a place, several times if the queue changes.
    async fn try_acquire(&self, link: &Link, request: &Acquire) -> Result<AcquireReply, StoreError> {
        for _ in 0..MOST_ATTEMPTS {
            let known = self.places.lock().known(&request.key, &request.owner, link.session);
            let tried = match known {
                Known::Nothing => self.enter(link, request).await?,
                Known::Asked | Known::Stands(_) => self.ask_again(link, request).await?,
            };
            if let Tried::Answered(reply) = tried {
                return Ok(reply);
            }
        }
        let lock = self.config.names.lock(&request.key);
        Err(StoreError::later(format!("{}: `{lock}` changes faster than distlock can ask", self.describe())))
    }
}

/// The result of a request for a place.
enum Tried {
    Answered(AcquireReply),
    /// The queue was changed meanwhile.
    Changed,
}

fn is_ours(stat: &Stat, session: i64) -> bool {
    stat.ephemeral_owner == session
}

impl LockStore for ZooKeeperStore {
    fn abilities(&self) -> Abilities {
        Abilities::default()
            .shared()
            .limited()
            .fencing(Fencing::OneByOne)
            .waiting(Waiting::Queued)
            .lease(LeaseRule::Session)
            .renews_together(MOST_TOGETHER)
            .lists()
            .publishes()
            .replaces()
            .lacks(Ability::MinHold, NOTHING_ENDS_BY_ITSELF)
            .connects_within(self.config.connect_timeout)
    }

    fn describe(&self) -> String {
        self.config.describe()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let link = self.linked()?;
        let error = match self.try_acquire(&link, request).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        // A place that was created before still exists, although the last command did nothing.
        let known = self.places.lock().known(&request.key, &request.owner, link.session);
        let is_hidden = error.kind == Failure::Later && known != Known::Nothing;
        Err(if is_hidden { StoreError::unknown(error) } else { error })
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let replies = self.renew_all(std::slice::from_ref(request)).await?;
        Ok(replies.first().copied().unwrap_or(RenewReply::NotHeld))
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        let link = self.linked()?;
        // All requests are sent before the first reply is awaited.
        let asked: Vec<_> = requests
            .iter()
            .map(|Renew { key, owner, .. }| {
                let Known::Stands(name) = self.places.lock().known(key, owner, link.session) else {
                    return None;
                };
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

    async fn hand_over(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        self.detach(request).await
    }

    async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        self.take_over(request).await
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let link = self.linked()?;
        let found = self.give_up(&link, request).await?;
        Ok(if found { ReleaseReply::Released } else { ReleaseReply::NotHeld })
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let seen = self.list_now(&self.linked()?, &self.config.names.lock(key)).await?;
        match seen.stored() {
            Some(lock) => self.with_text(key, lock).await.map(Some),
            None => Ok(None),
        }
    }

    async fn publish(&self, request: &Publish) -> Result<(), StoreError> {
        self.write_text(request).await
    }

    async fn unpublish(&self, request: &Publish) -> Result<(), StoreError> {
        self.remove_text(&request.key, &request.owner).await
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        self.page(&self.linked()?, request).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        self.examine().await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        let (link, lock) = (self.linked()?, self.config.names.lock(key));
        for _ in 0..MOST_ATTEMPTS {
            let seen = self.list_now(&link, &lock).await?;
            if seen.places.is_empty() {
                return Ok(false);
            }
            let mut ended = false;
            for holder in seen.holders() {
                ended |= self.delete(&link, &holder.path(&lock)).await?;
            }
            if ended {
                return Ok(true);
            }
        }
        Err(StoreError::later(format!("{}: the holders of `{key}` change too fast", self.describe())))
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        // After a panic, `run` is called again. The session has ended with the first call, and the manager knows that.
        *self.link.lock() = None;
        self.tickets.lock().clear();
        self.places.lock().clear();
        tokio::select! {
            () = self.supervise(&events) => {}
            () = self.closed.notified() => {}
        }
        // No new session begins.
        pending().await
    }

    async fn close(&self) {
        let link = self.link.lock().take();
        self.places.lock().clear();
        self.closed.notify_one();
        let (left_tickets, Some(link)) = (self.tickets.lock().leave(), link) else { return };
        if left_tickets {
            // Locks that were handed over stay until the session is over.
            return;
        }
        let mut states = link.client.state_watcher();
        // The client ends its session when its last user drops it. If that fails, the session expires.
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
