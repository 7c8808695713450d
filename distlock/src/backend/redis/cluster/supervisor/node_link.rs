//! The links to one node: for commands and for pushes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Cmd;
use tokio::time::timeout;

use super::{FIRST_PUSH_LINK_WAIT, Supervisor};
use crate::backend::redis::cluster::node::Node;
use crate::backend::redis::command::Wire;
use crate::backend::redis::config::{Address, RedisConfig};
use crate::backend::redis::endpoint::{Connects, Endpoint};
use crate::backend::redis::errors;
use crate::backend::redis::handshake::Role;
use crate::backend::redis::link::Link;
use crate::backend::redis::names::Names;
use crate::backend::redis::push::Listener;
use crate::backend::redis::slot_channels::SlotChannels;
use crate::backend::redis::supervisor::{Connected, LinkOwner};
use crate::backend::{EarlierCommands, Failure, Push, StoreError};

/// The longest pause between two attempts to reach a node.
const LONGEST_CONNECT_PAUSE: Duration = Duration::from_millis(250);

/// Keeps the link to one node.
pub(super) struct NodeLink {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) node: Arc<Node>,
    /// Whether a connection of this node was subscribed.
    subscribed_before: AtomicBool,
}

impl NodeLink {
    pub(super) fn new(supervisor: Arc<Supervisor>, node: Arc<Node>) -> NodeLink {
        NodeLink { supervisor, node, subscribed_before: AtomicBool::new(false) }
    }
}

impl Connects for NodeLink {
    fn config(&self) -> &RedisConfig {
        &self.supervisor.shared.config
    }

    fn wire(&self) -> &Arc<Wire> {
        &self.supervisor.shared.wire
    }

    fn place(&self) -> String {
        self.node.address.to_string()
    }

    async fn wanted(&self) {}
}

impl LinkOwner for NodeLink {
    fn role(&self) -> Role {
        if self.supervisor.shards.is_some() { Role::Master } else { Role::ClusterNode }
    }

    fn longest_pause(&self) -> Duration {
        LONGEST_CONNECT_PAUSE
    }

    async fn locate(&self) -> Result<Address, StoreError> {
        Ok(self.node.address.clone())
    }

    async fn admit(&self, link: &Link) -> Result<(), StoreError> {
        let Some(shards) = &self.supervisor.shards else { return Ok(()) };
        let server = (&*self.node.exec, link, &self.node.address);
        let admitted = shards.admit(server, self.supervisor.config.op_timeout).await;
        if let Err(cause) = &admitted
            && shards.are_refused()
        {
            // Other clients may use all servers with another list.
            for node in self.supervisor.nodes.lock().values() {
                node.link().inspect(|link| link.give_up(cause.clone()));
            }
        }
        admitted
    }

    async fn demoted(&self, _address: &Address) -> StoreError {
        self.node.ended().await;
        errors::found(Failure::NotSent, format!("{} no longer serves slots", self.node.address))
    }

    async fn up(&self, found: &Connected) {
        self.node.exec.handshake_done(&found.server);
        self.node.exec.call_it(found.server.node_id.as_deref().map(Arc::from));
        self.supervisor.wire.push_with(found.server.push_command);
        self.node.up(Arc::clone(&found.link));
        if self.supervisor.shards.is_some() {
            // No other connection receives the pushes of this server.
            let mut tried = self.supervisor.tried.subscribe();
            let is_heard = |_: &bool| self.supervisor.reported.lock().subscribed.contains(&self.node.address);
            drop(timeout(FIRST_PUSH_LINK_WAIT, tried.wait_for(is_heard)).await);
        }
        let mut reported = self.supervisor.reported.lock();
        reported.unreported = true;
        if found.earlier == EarlierCommands::MayArrive {
            reported.earlier = EarlierCommands::MayArrive;
        }
        drop(reported);
        self.supervisor.changed.notify_one();
        // Its role may have changed while the link was down.
        if self.node.cause().is_some() {
            self.supervisor.refresh.notify_one();
        }
    }

    /// The node that serves the slot of the record stores the record.
    fn introduction(&self) -> Option<Cmd> {
        let wire = &self.supervisor.wire;
        let slot = wire.names.slot(&Names::record_key(&wire.client));
        let is_here =
            self.supervisor.map().owner(slot).is_some_and(|owner| owner.address == self.node.address);
        is_here.then(|| self.supervisor.events.who()).flatten().map(|who| wire.introduce(&who))
    }

    fn down(&self, cause: StoreError) {
        let lost = self.node.link().is_some();
        self.node.down(cause);
        if let Some(shards) = &self.supervisor.shards {
            shards.forget(&self.node.address);
            self.supervisor.report_pushes();
        }
        self.supervisor.changed.notify_one();
        if lost {
            self.supervisor.refresh.notify_one();
        }
    }

    fn retired(&self) -> bool {
        self.node.has_ended()
    }

    fn ended(&self) {
        self.node.end();
        // After a panic of its task, the next map has another node with this address.
        self.supervisor.refresh.notify_one();
    }
}

/// Subscribes on this node. A push reaches the subscribers on every node. It is immediate on the node that makes it. To
/// the other nodes, it goes over connections on which some versions delay small messages by 40 ms.
impl Listener for NodeLink {
    async fn locate(&self) -> Result<Address, StoreError> {
        self.node.linked().await;
        Ok(self.node.address.clone())
    }

    /// While other subscriptions remain, no push by PUBLISH is missed. A push by SPUBLISH may have gone to the
    /// connection before this one, so the engine must ask for every waiter.
    fn subscribed(&self, at: Endpoint) {
        let again = self.subscribed_before.swap(true, Ordering::Relaxed);
        let mut reported = self.supervisor.reported.lock();
        reported.subscribed.insert(at.address);
        reported.unreported |= again && reported.up && self.supervisor.wire.pushes_by_slot();
        drop(reported);
        self.supervisor.report_pushes();
        self.supervisor.changed.notify_one();
    }

    fn unsubscribed(&self) {
        self.supervisor.reported.lock().subscribed.remove(&self.node.address);
        self.supervisor.report_pushes();
    }

    fn slot_channels(&self) -> Option<&SlotChannels> {
        Some(&self.node.slot_channels)
    }

    async fn moved(&self) {
        self.node.ended().await;
    }

    fn push(&self, push: Push, from: Option<&str>) {
        self.supervisor.deliver(push, from);
    }
}
