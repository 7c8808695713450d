//! Creates a place in the queue of a lock, or finds one that was requested before.
//!
//! A place is created before the places before it are known. It is deleted if its owner does not wait, or if its kind
//! is not compatible with the kind of the first place. Until then, others wait behind it.

use zookeeper_client::{CreateMode, Error, MultiWriteResult, Stat};

use super::follower::Follower;
use super::names::PlaceName;
use super::places::Came;
use super::queue::{QueueState, Standing};
use super::session::create_below;
use super::{Link, Tried, ZooKeeperStore};
use distlock_store::engine::Failure;
use distlock_store::{Acquire, AcquireReply, Release, StoreError};

/// The server counts the places of a lock in 32 bits; some are reserved for owners that ask at the same time.
const LAST_NUMBER: i64 = i32::MAX as i64 - 100_000;

impl ZooKeeperStore {
    /// Creates a place for an owner that has none.
    pub(super) async fn enter(&self, link: &Link, request: &Acquire) -> Result<Tried, StoreError> {
        let (key, owner, lock) = (&request.key, &request.owner, self.config.names.lock(&request.key));
        let prefix = PlaceName::prefix(owner.as_str(), link.session, request.kind);
        self.places.lock().asks(key, owner, link.session);
        let (name, parent) = match self.create(link, &lock, &prefix).await {
            Ok(created) => created,
            Err(error) => {
                let meaning = self.error(&lock, &error);
                if meaning.kind != Failure::Unknown {
                    self.places.lock().goes(key, owner, link.session);
                }
                if error != Error::NoNode {
                    return Err(meaning);
                }
                self.make_lock(link, &lock).await?;
                return Ok(Tried::Changed);
            }
        };
        self.places.lock().stands(key, owner, link.session, &name);
        if !(0..=LAST_NUMBER).contains(&name.number) {
            return self.is_used_up(link, request, &lock).await;
        }
        let created = parent.mzxid;
        if parent.num_children == 1 {
            return Ok(self.holds(request, created));
        }
        let listed = link.client.get_children(&lock).await;
        let (names, parent) = listed.map_err(|error| self.error(&lock, &error))?;
        let seen = QueueState::read(names);
        let Some(behind) = seen.position(&name) else {
            self.places.lock().goes(key, owner, link.session);
            return Ok(Tried::Changed);
        };
        match seen.standing(behind, name.kind) {
            Standing::Holds => Ok(self.holds(request, parent.pzxid.max(created))),
            standing => self.is_kept_out(link, request, name, (seen, behind, standing)).await,
        }
    }

    /// Creates a place, and writes to the node of the lock in the same transaction: the reply contains the number of
    /// places. So a request for a free lock need not list them. Returns the place, and the node of the lock.
    async fn create(&self, link: &Link, lock: &str, prefix: &str) -> Result<(PlaceName, Stat), Error> {
        let options = CreateMode::EphemeralSequential.with_acls(self.config.acls());
        let mut writer = link.client.new_multi_writer();
        writer.add_create(&format!("{lock}/{prefix}"), b"", &options)?;
        writer.add_set_data(lock, b"", None)?;
        match writer.commit().await?.as_slice() {
            [MultiWriteResult::Create { path, .. }, MultiWriteResult::SetData { stat }] => {
                let name = path.rsplit('/').next().and_then(|name| PlaceName::read(name.to_owned()));
                name.map(|name| (name, *stat)).ok_or_else(|| Error::UnexpectedError(path.clone()))
            }
            other => Err(Error::UnexpectedError(format!("{other:?}"))),
        }
    }

    /// The place excludes all others. `zxid`: the last change of the places.
    fn holds(&self, request: &Acquire, zxid: i64) -> Tried {
        self.places.lock().comes(&request.key, &request.owner, Came::AtOnce);
        Tried::Answered(AcquireReply::Acquired { fence: fence(request.fences, zxid) })
    }

    /// An owner that may have a place asks again.
    pub(super) async fn ask_again(&self, link: &Link, request: &Acquire) -> Result<Tried, StoreError> {
        let (key, owner, lock) = (&request.key, &request.owner, self.config.names.lock(&request.key));
        let seen = self.list(link, &lock).await?;
        let found = seen.places.iter().position(|place| place.is_of(owner.as_str(), link.session));
        let Some((behind, name)) = found.and_then(|at| Some((at, seen.places.get(at)?.clone()))) else {
            self.places.lock().goes(key, owner, link.session);
            return Ok(Tried::Changed);
        };
        self.places.lock().stands(key, owner, link.session, &name);
        match seen.standing(behind, name.kind) {
            Standing::Holds => {
                // A member that lags behind may not know yet that the place was deleted.
                let Some(number) =
                    self.confirm(link, &name.path(&lock), Confirmed::of(request.fences)).await?
                else {
                    self.places.lock().goes(key, owner, link.session);
                    return Ok(Tried::Changed);
                };
                self.places.lock().comes(key, owner, Came::AtOnce);
                Ok(Tried::Answered(AcquireReply::AlreadyHeld { fence: fence(request.fences, number) }))
            }
            // Its turn came after the queue was read, and the grant was reported. A reply of "busy" would contradict it
            // now.
            _ if self.places.lock().has_come(key, owner) => Ok(Tried::Changed),
            standing => self.is_kept_out(link, request, name, (seen, behind, standing)).await,
        }
    }

    /// Asks the leader whether a place still exists. `None`: it does not. Otherwise the number of a change, which
    /// `confirmed` selects.
    pub(super) async fn confirm(
        &self,
        link: &Link,
        path: &str,
        confirmed: Confirmed,
    ) -> Result<Option<i64>, StoreError> {
        if confirmed == Confirmed::Location {
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
                [MultiWriteResult::SetData { stat }] => Ok(Some(stat.mzxid)),
                _ => Err(self.place().odd("an answer that is not understood")),
            },
            Err(zookeeper_client::CheckWriteError::CheckFailed { source: Error::NoNode }) => Ok(None),
            Err(error) => Err(self.error(path, &Error::from(error))),
        }
    }

    /// The reply to an owner that has a place and does not hold the lock.
    async fn is_kept_out(
        &self,
        link: &Link,
        request: &Acquire,
        name: PlaceName,
        (seen, behind, standing): (QueueState, usize, Standing),
    ) -> Result<Tried, StoreError> {
        let (key, owner, lock) = (&request.key, &request.owner, self.config.names.lock(&request.key));
        let tried = match standing {
            Standing::WrongKind(found) => Tried::Answered(AcquireReply::WrongKind { found }),
            Standing::BehindWrongKind => Tried::Changed,
            Standing::Holds | Standing::Waits => {
                Tried::Answered(AcquireReply::Busy(seen.busy(owner.as_str(), behind)))
            }
        };
        if request.queue.is_none() || standing != Standing::Waits {
            self.delete(link, &name.path(&lock)).await?;
            // Not earlier: while the place may exist, an owner that asks again must find this place, and no other.
            self.places.lock().goes(key, owner, link.session);
        } else if !self.places.lock().is_awaited(key, owner) {
            let in_the_way = seen.in_the_way(behind, name.kind);
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
            let task = tokio::spawn(follower.follow(in_the_way));
            self.places.lock().awaits(key, owner, task.abort_handle());
        }
        Ok(tried)
    }

    /// The node of a lock. The server removes it when it is unused.
    async fn make_lock(&self, link: &Link, lock: &str) -> Result<(), StoreError> {
        let options = CreateMode::Container.with_acls(self.config.acls());
        create_below(&self.config, &link.client, lock, &self.config.names.locks(), &options).await
    }

    /// The lock has used all numbers for places. After this one, the order would be unknown.
    async fn is_used_up(&self, link: &Link, request: &Acquire, lock: &str) -> Result<Tried, StoreError> {
        let release = Release::new(request.key.clone(), &request.owner);
        self.give_up(link, &release).await?;
        Err(StoreError::refused(format!(
            "{}: `{lock}` has had {LAST_NUMBER} places, which is all that ZooKeeper can number: delete it while no \
             process uses the lock, or use another key",
            self.config.describe()
        )))
    }
}

/// The number that the leader returns for a place that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmed {
    /// The number of its creation. It only proves that the place exists.
    Location,
    /// A number that is higher than all fencing tokens so far.
    FencingToken,
}

impl Confirmed {
    pub(super) fn of(fences: u32) -> Self {
        if fences > 0 { Confirmed::FencingToken } else { Confirmed::Location }
    }
}

/// The number, if a fencing token is requested.
pub(super) fn fence(fences: u32, zxid: i64) -> Option<u64> {
    u64::try_from(zxid).ok().filter(|_| fences > 0)
}
