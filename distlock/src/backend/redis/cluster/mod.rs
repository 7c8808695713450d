//! A Redis Cluster: one supervised link for each master, and a map of which node serves which slot.
//!
//! Commands are routed here and not by the client library, because its cluster connection silently repeats a
//! command whose reply was lost. Here a command is repeated only after an error reply that proves that it was
//! not executed: MOVED, ASK, NOSCRIPT. After TRYAGAIN and CLUSTERDOWN the engine tries again later.
//!
//! Everything that belongs to a lock lies in the lock's slot (see `names.rs`), so every script runs on one
//! node. While a slot is being moved, scripts with several keys are refused (TRYAGAIN) unless all of these
//! keys have been moved; acquiring a free lock and renewing touch one key and work throughout.
//!
//! # What is reported to the engine
//!
//! The engine knows one link; here there are many.
//! - `Up`: the map is known, it is known for every master whether it can be reached, and at least one can be.
//! - The link to one master is lost: nothing is reported. Operations on that master fail (`Unknown`, then
//!   `NotSent`).
//! - A lost link was made again, or slots went to a node that was not a master before (a fail-over): `Up`
//!   again, so that the engine renews every lease and asks for every waiter. `former_links_dead` is about all
//!   links made since the previous `Up`. A command that was sent to a replaced master cannot take effect any
//!   more: its data is discarded when it comes back as a replica.
//! - Slots went from one master to another: `Up` too, because the server times of two nodes must not be
//!   compared. As nothing was lost, it is reported at most once a second; in between, the first push about
//!   such a slot causes it.
//! - No master can be reached: `Down`.
//!
//! Unlike on a single server, a step of one node's clock is not detected: the engine is told that times come
//! from many clocks.
//!
//! Grants are pushed by classic PUBLISH, which reaches the subscribers on every node. We subscribe on each
//! master, because a push is immediate only on the node that makes it, and drop the copies that come from the
//! other nodes. Each push names the node that made the grant. If that is not the node that, according to our
//! map, serves the slot, an `Up` comes before the push.

mod batch;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod inquire;
mod map;
mod node;
mod question;
mod supervisor;
mod talk;

#[cfg(any(test, fuzzing))]
pub(super) use fuzzing::read as fuzz;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use redis::{Cmd, ServerError, Value};
use tokio::sync::{Notify, watch};

use super::command::Wire;
use super::config::{Address, Place, RedisConfig};
use super::config_error::ConfigError;
use super::exec::{self, MOST_KEYS_AT_ONCE};
use super::link::Link;
use super::names::Names;
use super::operation::{Encoding, Operation};
use super::{errors, reply};
use crate::backend::ConnectOn;
use crate::backend::fail_all::fail_all;
use crate::backend::{
    AcquireReply, Backend, BatchReply, BoxFuture, Events, Failure, Inspection, OpError, OpResult, Others,
    ReleaseReply, RenewReply, Sending, Told, op,
};
use crate::connection::AddressMap;
use crate::finding::Finding;
use map::{Map, redirected};
use node::Node;
use question::{Question, SlotState};

/// After this many redirections a command fails, and the engine tries again later.
const HOPS: usize = 6;

/// Locks on a Redis Cluster.
pub(crate) struct ClusterBackend {
    shared: Arc<ClusterShared>,
}

#[derive(Debug)]
struct ClusterShared {
    config: RedisConfig,
    seeds: Vec<Address>,
    wire: Arc<Wire>,
    map: RwLock<Arc<Map>>,
    /// Every node to which there is, or should be, a link.
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    /// Slots that have changed hands since the last report to the engine.
    moved: Mutex<HashSet<u16>>,
    wanted: watch::Sender<bool>,
    /// Something has changed that the engine or the link supervisors may have to know.
    changed: Notify,
    /// The map may be wrong.
    refresh: Notify,
    /// No supervisor keeps links any more.
    ended: AtomicBool,
}

/// Replies, and the node that gave them.
struct Answered {
    node: Arc<Node>,
    link: Arc<Link>,
    encoding: Encoding,
    values: Vec<Value>,
}

/// A reply, and the node that gave it.
struct Said<T> {
    node: Arc<Node>,
    link: Arc<Link>,
    reply: T,
}

/// Where an error reply sends a command.
enum Redirect {
    /// To the node that serves the slot from now on.
    Moved(u16, Address),
    /// To the node that is taking the slot over, this once.
    Ask(Address),
}

fn redirect(asked: &Address, error: &ServerError, map: Option<&AddressMap>) -> Option<Redirect> {
    let (slot, address) = match error.code() {
        "MOVED" | "ASK" => redirected(asked, error.details()?, map)?,
        _ => return None,
    };
    Some(if error.code() == "ASK" { Redirect::Ask(address) } else { Redirect::Moved(slot, address) })
}

fn first_error(values: &[Value]) -> Option<&ServerError> {
    values.iter().find_map(|value| match value {
        Value::ServerError(error) => Some(error),
        _ => None,
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClusterBackend {
    /// Nothing is connected before [`Backend::run`] is polled.
    ///
    /// # Errors
    ///
    /// A sentence that says what to change in `config`.
    pub(crate) fn new(config: RedisConfig) -> Result<Arc<ClusterBackend>, ConfigError> {
        config.check()?;
        let Place::Cluster(seeds) = config.place.clone() else {
            return Err("a cluster needs a URL with the scheme `redis+cluster://`".into());
        };
        let names = Names::clustered(config.prefix.clone());
        let wire = Arc::new(Wire::new(names, config.client.clone(), &config.tuning));
        let shared = ClusterShared {
            seeds,
            wire,
            map: RwLock::new(Arc::new(Map::empty())),
            nodes: Mutex::default(),
            moved: Mutex::default(),
            wanted: watch::Sender::new(config.connect == ConnectOn::Start),
            changed: Notify::new(),
            refresh: Notify::new(),
            ended: AtomicBool::new(false),
            config,
        };
        Ok(Arc::new(ClusterBackend { shared: Arc::new(shared) }))
    }
}

impl ClusterBackend {
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
}

impl ClusterShared {
    fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the map by what `change` makes of it. Remembers which slots changed hands.
    fn change_map(&self, change: impl FnOnce(&Map) -> Map) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let new = change(&map);
        let changes: Vec<u16> = new.changes(&map).collect();
        if changes.is_empty() {
            return;
        }
        *map = Arc::new(new);
        drop(map);
        locked(&self.moved).extend(changes);
        self.changed.notify_one();
    }

    /// The node at `address`. If it is new, a supervisor starts to keep a link to it.
    fn node(&self, address: &Address) -> Arc<Node> {
        let mut nodes = locked(&self.nodes);
        if let Some(node) = nodes.get(address) {
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

    fn route(&self, key: &str) -> Result<(Arc<Node>, Arc<Link>), OpError> {
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
                |cause| OpError { kind: Failure::NotSent, source: cause.source },
            )),
        }
    }

    fn moved_to(&self, slot: u16, node: &Arc<Node>) {
        self.change_map(|map| map.with(slot, node));
        self.refresh.notify_one();
    }

    /// One operation. Fast path if the first reply answers it. Also returns the node that has answered.
    async fn carry_out<O: Operation>(
        self: Arc<Self>,
        (node, link): (Arc<Node>, Arc<Link>),
        key: Arc<str>,
        op: O,
        (cmd, encoding): (Cmd, Encoding),
    ) -> OpResult<Said<O::Reply>> {
        let value = link.request(&cmd).await.map_err(|error| exec::broken(&link, error))?;
        let mut answered = Answered { node, link, encoding, values: vec![] };
        if matches!((&value, encoding), (Value::ServerError(_), _) | (Value::Nil, Encoding::Short)) {
            answered.values.push(value);
            // Boxed because it is rare: it would double the size of every operation.
            return Box::pin(self.carry_on(answered, &key, &op)).await;
        }
        self.understand(answered, &key, &op, value)
    }

    /// Asks for a lock. The reply names a holder, whatever kind of lock the key is used for.
    async fn acquire(
        self: Arc<Self>,
        route: (Arc<Node>, Arc<Link>),
        key: Arc<str>,
        op: op::Ask,
        encoded: (Cmd, Encoding),
    ) -> OpResult<AcquireReply> {
        let said = Arc::clone(&self).carry_out(route, Arc::clone(&key), op, encoded).await?;
        let Said { node, link, mut reply } = said;
        // The time of a node that no longer serves the slot must not be compared with the time of a grant.
        if let AcquireReply::Busy { server_time, .. } = &mut reply
            && !self.serves(&node, &key)
        {
            *server_time = None;
        }
        Ok(if reply.names_a_marker() { Box::pin(node.exec.named(&link, &key, reply)).await } else { reply })
    }

    /// A release or a renewal.
    async fn operate<O: Operation>(
        self: Arc<Self>,
        route: (Arc<Node>, Arc<Link>),
        key: Arc<str>,
        op: O,
        encoded: (Cmd, Encoding),
    ) -> OpResult<O::Reply> {
        self.carry_out(route, key, op, encoded).await.map(|said| said.reply)
    }

    async fn carry_on<O: Operation>(
        &self,
        answered: Answered,
        key: &str,
        op: &O,
    ) -> OpResult<Said<O::Reply>> {
        let mut answered = self.follow(answered, key, Question::Op(op.encoder())).await?;
        let value = answered.values.pop().ok_or_else(|| exec::garbled(&answered.link))?;
        self.understand(answered, key, op, value)
    }

    fn understand<O: Operation>(
        &self,
        answered: Answered,
        key: &str,
        op: &O,
        value: Value,
    ) -> OpResult<Said<O::Reply>> {
        if let Value::ServerError(error) = &value
            && error.code() == "CLUSTERDOWN"
        {
            self.refresh.notify_one();
        }
        let Answered { node, link, encoding, .. } = answered;
        let reply = node.exec.decode(&link, key, op, encoding, value)?;
        Ok(Said { node, link, reply })
    }

    fn serves(&self, node: &Node, key: &str) -> bool {
        self.map().owner(self.wire.names.slot(key)).is_some_and(|owner| owner.address == node.address)
    }

    /// Follows redirections until a node answers.
    async fn follow(
        &self,
        mut last: Answered,
        key: &str,
        question: Question<'_>,
    ) -> Result<Answered, OpError> {
        let mut slot = SlotState::Settled;
        for _ in 0..HOPS {
            let again = last.values.iter().find_map(|value| last.node.exec.again(key, value, last.encoding));
            if again.is_none() {
                let Some(error) = first_error(&last.values) else { return Ok(last) };
                let (address, state) =
                    match redirect(&last.node.address, error, self.config.address_map.as_ref()) {
                        None => return Ok(last),
                        Some(Redirect::Ask(address)) => (address, SlotState::Arriving),
                        Some(Redirect::Moved(slot, address)) => {
                            self.moved_to(slot, &self.node(&address));
                            (address, SlotState::Settled)
                        }
                    };
                slot = state;
                last.node = self.node(&address);
                last.link = match last.node.link() {
                    Some(link) => link,
                    None => last.node.link_soon().await?,
                };
            }
            let (cmds, encoding) = question.cmds(&last.node.exec, again, key);
            last.encoding = encoding;
            last.values = question.ask(&last.link, cmds, slot).await?;
        }
        match first_error(&last.values) {
            None => Ok(last),
            Some(error) => {
                let text = format!("the cluster's nodes do not agree on who serves this key ({error})");
                Err(errors::found(Failure::Later, text))
            }
        }
    }

    /// Asks one question at the node that serves its key.
    async fn inquire(
        &self,
        (node, link): (Arc<Node>, Arc<Link>),
        key: &str,
        question: Question<'_>,
    ) -> Result<Answered, OpError> {
        let (cmds, encoding) = question.cmds(&node.exec, None, key);
        let values = question.ask(&link, cmds, SlotState::Settled).await?;
        let answered = self.follow(Answered { node, link, encoding, values }, key, question).await?;
        match first_error(&answered.values) {
            Some(error) => Err(exec::failed(&answered.link, error.clone())),
            None => Ok(answered),
        }
    }

    /// Several locks of one slot.
    async fn carry_out_acquire_all(
        self: Arc<Self>,
        route: (Arc<Node>, Arc<Link>),
        batch: Vec<(Arc<str>, op::Acquire)>,
    ) -> Vec<OpResult<BatchReply>> {
        let Some((key, _)) = batch.first() else { return Vec::new() };
        let replies = match self.inquire(route, key, Question::AcquireAll(&batch)).await {
            Ok(Answered { node, link, values, .. }) => {
                match node.exec.decode_acquire_all(&link, &batch, values.first().unwrap_or(&Value::Nil)) {
                    Ok(replies) => Ok(node.exec.all_named(&link, &batch, replies).await),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match replies {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(error) => fail_all(batch.len(), &error),
        }
    }

    async fn inspect(
        self: Arc<Self>,
        route: (Arc<Node>, Arc<Link>),
        key: Arc<str>,
    ) -> Result<Option<Inspection>, OpError> {
        let answered = self.inquire(route, &key, Question::Inspect).await?;
        reply::of_inspect(&answered.values).map_err(|reply::Garbled| exec::garbled(&answered.link))
    }

    async fn force(self: Arc<Self>, route: (Arc<Node>, Arc<Link>), key: Arc<str>) -> Result<bool, OpError> {
        let answered = self.inquire(route, &key, Question::Force).await?;
        let value = answered.values.first().unwrap_or(&Value::Nil);
        reply::of_force(value).map_err(|reply::Garbled| exec::garbled(&answered.link))
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
                let encoded = route.0.exec.encode(key, &op);
                let shared = Arc::clone(&self.shared);
                Sending::Pending(Box::pin(shared.acquire(route, Arc::clone(key), op, encoded)))
            }
            Err(error) => Sending::Ready(Err(error)),
        }
    }

    fn send_release(&self, key: &Arc<str>, op: op::Release) -> Sending<ReleaseReply> {
        self.send(key, op)
    }

    fn send_renew(&self, key: &Arc<str>, op: op::Renew) -> Sending<RenewReply> {
        self.send(key, op)
    }

    fn send_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> BoxFuture<Vec<OpResult<RenewReply>>> {
        self.send_batch(batch)
    }

    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        let slot = |key: &Arc<str>| self.shared.wire.names.slot(key);
        let first = keys.first().map(slot);
        keys.iter().take(MOST_KEYS_AT_ONCE).take_while(|key| Some(slot(key)) == first).count()
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

    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<Inspection>, OpError>> {
        match self.shared.route(key) {
            Ok(route) => Box::pin(Arc::clone(&self.shared).inspect(route, Arc::clone(key))),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn others(&self) -> Others {
        Others::Asked
    }

    fn clients(&self) -> BoxFuture<Result<Vec<String>, OpError>> {
        Box::pin(Arc::clone(&self.shared).clients())
    }

    fn diagnose(&self) -> BoxFuture<Result<Vec<Finding>, OpError>> {
        Box::pin(Arc::clone(&self.shared).diagnose())
    }

    fn tell(&self, client: &str, text: String) -> BoxFuture<Result<Told, OpError>> {
        let client = client.to_owned();
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.tell(&client, &text).await })
    }

    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, OpError>> {
        match self.shared.route(key) {
            Ok(route) => Box::pin(Arc::clone(&self.shared).force(route, Arc::clone(key))),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()> {
        Box::pin(supervisor::run(Arc::clone(&self.shared), events))
    }

    fn prefix(&self) -> &str {
        &self.shared.config.prefix
    }

    fn describe(&self) -> String {
        format!("redis at {}", self.shared.config.place)
    }
}
