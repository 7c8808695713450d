//! A Redis Cluster: one supervised link for each master, and a map of which node serves which slot. Independent servers
//! that share the keys use the same code with a fixed map (see `shards`).
//!
//! Commands are routed here and not by the client library, because its cluster connection silently repeats a command
//! whose reply was lost. Here a command is repeated only after an error reply that proves that it was not executed:
//! MOVED, ASK, NOSCRIPT. After TRYAGAIN and CLUSTERDOWN, the engine retries later.
//!
//! Everything that belongs to a lock lies in the lock's slot (see `names.rs`), so every script runs on one node. While
//! a slot is being moved, scripts with several keys are refused (TRYAGAIN) until all of these keys have been moved.
//! Scripts that acquire a free lock or renew a lease use one key, and always work.
//!
//! # What is reported to the engine
//!
//! The engine knows one link, but a cluster has many.
//! - `Up`: the map is known, the first attempt to connect to every master has ended, and at least one is reachable.
//! - The link to one master is lost: nothing is reported. Operations on that master fail (`Unknown`, then
//!   `NotSent`).
//! - A lost link was replaced, or slots went to a node that was not a master before (a fail-over): `Up` is reported
//!   again. The engine then renews every lease and asks for every waiter. `earlier` covers all links that were made
//!   since the previous `Up`. A command that was sent to a replaced master can no longer take effect, because the data
//!   of that master is discarded when it returns as a replica.
//! - Slots went from one master to another: `Up` is reported, too, because the server times of two nodes must not be
//!   compared. Since nothing was lost, it is reported at most once a second. Until then, a push for such a slot is only
//!   a hint, after which the waiter asks.
//! - No master is reachable: `Down`.
//!
//! Unlike on a single server, a step of one node's clock is not detected. The tuning of the engine says that times come
//! from many clocks.
//!
//! Grants are pushed by SPUBLISH to a channel in the lock's slot, if the nodes know it (see `slot_channels`), and
//! otherwise by PUBLISH, which reaches the subscribers on every node. Each process subscribes on every master, because
//! a push is immediate only on the node that makes it, and drops the copies from the other nodes. Each push names the
//! node that made the grant. If the map says that another node serves the slot, the push is only a hint.

mod all_nodes;
mod batch;
mod follow;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod inquire;
mod map;
mod node;
mod question;
mod recent_pushes;
mod shards;
mod supervisor;

#[cfg(any(test, fuzzing))]
pub(super) use fuzzing::read as fuzz;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{Notify, watch};

use super::command::Wire;
use super::config::{Address, RedisConfig, ServerLocation};
use super::errors;
use super::exec::MOST_KEYS_AT_ONCE;
use super::link::Link;
use super::listing::{self, Batches, ScanResult, Search};
use super::names::Names;
use super::operation::Operation;
use crate::backend::ConnectOn;
use crate::backend::fail_all::fail_all;
use crate::backend::{
    AcquireReply, Backend, BatchPart, BatchReply, BoxFuture, Events, Failure, HoldNote, ListPage, OpResult,
    Others, ReleaseReply, RenewReply, Sending, StoreError, StoredLock, StoredLocks, op,
};
use distlock_store::Finding;
use distlock_store::kit::sync::Locked;
use map::Map;
use node::Node;
use shards::Shards;

/// Locks on a Redis Cluster, or on independent servers that share the keys.
#[derive(Clone)]
pub(crate) struct ClusterBackend {
    shared: Arc<ClusterShared>,
}

#[derive(Debug)]
struct ClusterShared {
    config: RedisConfig,
    /// The nodes that are asked first.
    seeds: Vec<Address>,
    /// The servers, if they are independent.
    shards: Option<Shards>,
    wire: Arc<Wire>,
    map: RwLock<Arc<Map>>,
    /// Every node that has, or should have, a link.
    nodes: Locked<HashMap<Address, Arc<Node>>>,
    /// The slots whose node has changed since the last report to the engine.
    moved: Locked<HashSet<u16>>,
    wanted: watch::Sender<bool>,
    /// Notified after a change that the engine or the link supervisors may need.
    changed: Notify,
    /// Notified when the map may be wrong.
    refresh: Notify,
    /// Whether the supervisor has ended, so links are no longer kept.
    ended: AtomicBool,
}

impl ClusterBackend {
    /// Nothing is connected before [`Backend::run`] is polled.
    ///
    /// # Errors
    ///
    /// A sentence that says what to change in `config`.
    pub(crate) fn new(config: RedisConfig) -> Result<Arc<ClusterBackend>, String> {
        config.check()?;
        let (seeds, shards, names) = match config.place.clone() {
            ServerLocation::Cluster(seeds) => (seeds, None, Names::clustered(config.prefix.clone())),
            ServerLocation::Shards(servers) => {
                (Vec::new(), Some(Shards::new(servers)), Names::new(config.prefix.clone()))
            }
            ServerLocation::Fixed(_) | ServerLocation::Sentinel(_) => {
                return Err("a cluster needs a URL with the scheme `redis+cluster://`".into());
            }
        };
        let wire = Arc::new(Wire::new(names, config.client.clone(), &config.tuning));
        let shared = ClusterShared {
            seeds,
            shards,
            wire,
            map: RwLock::new(Arc::new(Map::empty())),
            nodes: Locked::default(),
            moved: Locked::default(),
            wanted: watch::Sender::new(config.connect == ConnectOn::Start),
            changed: Notify::new(),
            refresh: Notify::new(),
            ended: AtomicBool::new(false),
            config,
        };
        Ok(Arc::new(ClusterBackend { shared: Arc::new(shared) }))
    }

    /// An operation that does not acquire.
    fn send<O: Operation>(&self, key: &Arc<str>, op: O) -> Sending<O::Reply> {
        match self.shared.route(key) {
            Ok(route) => {
                let encoded = route.0.exec.encode_alone(key, op.encoder());
                let shared = Arc::clone(&self.shared);
                Sending::Pending(Box::pin(shared.operate(route, Arc::clone(key), op, encoded)))
            }
            Err(error) => Sending::Ready(Err(error)),
        }
    }

    fn force(&self, key: &Arc<str>, owner: Option<&Arc<str>>) -> BoxFuture<Result<bool, StoreError>> {
        let (shared, route) = (Arc::clone(&self.shared), self.shared.route(key));
        let (key, owner) = (Arc::clone(key), owner.cloned());
        Box::pin(async move { shared.force(route?, key, owner).await })
    }
}

impl ClusterShared {
    fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new supervisor begins. After a panic of the last one, its nodes have ended.
    fn begin(&self) {
        self.change_map(|_| Map::empty());
        let mut nodes = self.nodes.lock();
        self.ended.store(false, Ordering::SeqCst);
        let former = std::mem::take(&mut *nodes);
        drop(nodes);
        drop(former);
    }

    /// Replaces the map by the result of `change`. Remembers the slots whose node changed.
    fn change_map(&self, change: impl FnOnce(&Map) -> Map) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let new = change(&map);
        let changes: Vec<u16> = new.changes(&map).collect();
        // Also without a change: a node without slots may be in the former map.
        *map = Arc::new(new);
        if changes.is_empty() {
            return;
        }
        // Before a push from the new node can find the new map.
        self.moved.lock().extend(changes);
        drop(map);
        self.changed.notify_one();
    }

    /// The node at `address`. If it is new, or the last one has ended, a supervisor starts to keep a link to it.
    fn node(&self, address: &Address) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.get(address).filter(|node| !node.has_ended()) {
            return Arc::clone(node);
        }
        let node = Arc::new(Node::new(address.clone(), Arc::clone(&self.wire)));
        if self.ended.load(Ordering::SeqCst) {
            node.end();
        }
        nodes.insert(address.clone(), Arc::clone(&node));
        drop(nodes);
        self.changed.notify_one();
        node
    }

    fn route(&self, key: &str) -> Result<(Arc<Node>, Arc<Link>), StoreError> {
        let slot = self.wire.names.slot(key);
        let map = self.map();
        let Some(node) = map.owner(slot) else {
            if !map.is_known() {
                self.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
                let place = &self.config.place;
                return Err(errors::found(Failure::NotSent, format!("not connected to {place}")));
            }
            self.refresh.notify_one();
            let text = format!("no node of the cluster serves slot {slot}, that of this key");
            return Err(errors::found(Failure::NotSent, text));
        };
        match node.link() {
            Some(link) => Ok((Arc::clone(node), link)),
            None => Err(node.cause().map_or_else(
                || node.not_connected(),
                |cause| StoreError { kind: Failure::NotSent, source: cause.source },
            )),
        }
    }

    fn moved_to(&self, slot: u16, node: &Arc<Node>) {
        // After a fail-over, each command in flight is redirected, and a change copies the map.
        if !self.map().owner(slot).is_some_and(|owner| Arc::ptr_eq(owner, node)) {
            self.change_map(|map| map.with(slot, node));
        }
        self.refresh.notify_one();
    }
}

impl Batches for ClusterBackend {
    fn batch<O: Operation>(&self, batch: Vec<(Arc<str>, O)>) -> BoxFuture<Vec<OpResult<O::Reply>>> {
        self.send_batch(batch)
    }
}

impl fmt::Debug for ClusterBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClusterBackend").field(&self.describe()).finish()
    }
}

impl Backend for ClusterBackend {
    fn send_acquire(&self, key: &Arc<str>, op: op::Ask) -> Sending<AcquireReply> {
        match self.shared.route(key) {
            Ok(route) => {
                if op.queues() && self.shared.wire.pushes_by_slot() {
                    route.0.slot_channels.want(self.shared.wire.names.slot(key));
                }
                let encoded = route.0.exec.encode(key, &op);
                let shared = Arc::clone(&self.shared);
                Sending::Pending(Box::pin(shared.acquire(route, Arc::clone(key), op, encoded)))
            }
            Err(error) => Sending::Ready(Err(error)),
        }
    }

    fn cannot_replace(&self) -> Option<String> {
        None
    }

    fn send_replace(&self, key: &Arc<str>, op: op::Replace) -> Sending<AcquireReply> {
        self.send(key, op)
    }

    fn send_release(&self, key: &Arc<str>, op: op::Release) -> Sending<ReleaseReply> {
        self.send(key, op)
    }

    fn send_renew(&self, key: &Arc<str>, op: op::Renew) -> Sending<RenewReply> {
        self.send(key, op)
    }

    fn send_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> Vec<BatchPart<RenewReply>> {
        self.send_parts(batch)
    }

    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        let slot = |key: &Arc<str>| self.shared.wire.names.slot(key);
        let Some(first) = keys.first().map(slot) else { return 0 };
        if self.shared.shards.is_none() {
            return keys.iter().take(MOST_KEYS_AT_ONCE).take_while(|key| slot(key) == first).count();
        }
        // On independent servers, one command may name keys of several slots.
        let map = self.shared.map();
        let server = |slot| map.owner(slot).map(|node| &node.address);
        let most = map.owner(first).map_or(1, |node| node.exec.most_keys_at_once());
        keys.iter().take(most).take_while(|key| server(slot(key)) == server(first)).count()
    }

    fn send_acquire_all(&self, batch: Vec<(Arc<str>, op::Acquire)>) -> BoxFuture<Vec<OpResult<BatchReply>>> {
        let route = match batch.first() {
            Some((key, _)) => self.shared.route(key),
            None => return Box::pin(std::future::ready(Vec::new())),
        };
        let shared = Arc::clone(&self.shared);
        match route {
            Ok(route) => Box::pin(shared.carry_out_acquire_all(route, batch)),
            Err(error) => Box::pin(async move { fail_all(batch.len(), &error) }),
        }
    }

    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<StoredLock>, StoreError>> {
        Box::pin(listing::inspect_one(self.clone(), Arc::clone(key)))
    }

    fn others(&self) -> Others {
        Others::Listed
    }

    fn list(&self, beginning: &str, after: Option<Arc<str>>) -> BoxFuture<Result<ListPage, StoreError>> {
        let (this, mut found) = (self.clone(), ScanResult::new(Search::new(beginning, after)));
        Box::pin(async move {
            this.shared.search(&mut found).await?;
            Ok(found.page(&this).await)
        })
    }

    fn inspect_all(&self, keys: Vec<Arc<str>>) -> BoxFuture<Result<StoredLocks, StoreError>> {
        Box::pin(listing::inspect_all(self.clone(), keys))
    }

    fn note_holds(&self, notes: &mut dyn Iterator<Item = HoldNote>) -> Option<BoxFuture<()>> {
        Some(self.shared.note(notes))
    }

    fn publishes(&self) -> bool {
        true
    }

    fn diagnose(&self) -> BoxFuture<Result<Vec<Finding>, StoreError>> {
        Box::pin(Arc::clone(&self.shared).diagnose())
    }

    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        self.force(key, None)
    }

    fn force_release_from(&self, key: &Arc<str>, owner: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        self.force(key, Some(owner))
    }

    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()> {
        Box::pin(supervisor::run(Arc::clone(&self.shared), events))
    }

    fn refusal(&self) -> Option<StoreError> {
        self.shared.map().nodes.iter().find_map(|node| node.exec.refusal())
    }

    fn prefix(&self) -> &str {
        &self.shared.config.prefix
    }

    fn describe(&self) -> String {
        format!("redis at {}", self.shared.config.place)
    }
}
