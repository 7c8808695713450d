//! Commands, and the redirections of the nodes.

use std::sync::Arc;

use redis::{Cmd, ServerError, Value};

use super::ClusterShared;
use super::map::redirected;
use super::node::Node;
use super::question::{Question, SlotState, ask};
use crate::backend::fail_all::fail_all;
use crate::backend::redis::config::Address;
use crate::backend::redis::info::first_error;
use crate::backend::redis::link::Link;
use crate::backend::redis::operation::{Encoding, Operation};
use crate::backend::redis::{errors, exec, reply};
use crate::backend::{AcquireReply, BatchReply, Failure, OpResult, StoreError, op};
use distlock_store::kit::connection::AddressMap;

/// A command fails after this many redirections, and the engine retries it later.
const MAX_REDIRECTIONS: usize = 6;

/// What happens to a command that is redirected to a node without a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutLink {
    /// It waits for the present attempt to connect.
    Waits,
    /// It fails at once: others of its batch have their replies.
    Fails,
}

/// Replies, and the node that gave them.
pub(super) struct NodeReplies {
    pub(super) node: Arc<Node>,
    pub(super) link: Arc<Link>,
    pub(super) encoding: Encoding,
    pub(super) values: Vec<Value>,
}

/// A reply, and the node that gave it.
pub(super) struct NodeReply<T> {
    pub(super) node: Arc<Node>,
    pub(super) link: Arc<Link>,
    pub(super) reply: T,
}

/// The redirection in an error reply.
enum Redirect {
    /// Another node serves the slot from now on.
    Moved(u16, Address),
    /// Once, to the node that is taking the slot over.
    Ask(Address),
}

fn redirect(asked: &Address, error: &ServerError, map: Option<&AddressMap>) -> Option<Redirect> {
    let (slot, address) = match error.code() {
        "MOVED" | "ASK" => redirected(asked, error.details()?, map)?,
        _ => return None,
    };
    Some(if error.code() == "ASK" { Redirect::Ask(address) } else { Redirect::Moved(slot, address) })
}

impl ClusterShared {
    /// Executes one operation. On the fast path, the first reply completes it. Also returns the node that has answered.
    async fn carry_out<O: Operation>(
        self: Arc<Self>,
        (node, link): (Arc<Node>, Arc<Link>),
        key: Arc<str>,
        op: O,
        (cmd, encoding): (Cmd, Encoding),
    ) -> OpResult<NodeReply<O::Reply>> {
        let value = link.request(cmd).await.map_err(|error| exec::broken(&link, error))?;
        let mut answered = NodeReplies { node, link, encoding, values: vec![] };
        if matches!((&value, encoding), (Value::ServerError(_), _) | (Value::Nil, Encoding::Short)) {
            answered.values.push(value);
            // Boxed, because it is rare and would double the size of every operation.
            return Box::pin(self.carry_on(answered, &key, &op, WithoutLink::Waits)).await;
        }
        self.understand(answered, &key, &op, value)
    }

    /// Requests a lock. The reply names a holder, whatever kind of lock the key has.
    pub(super) async fn acquire(
        self: Arc<Self>,
        route: (Arc<Node>, Arc<Link>),
        key: Arc<str>,
        op: op::Ask,
        encoded: (Cmd, Encoding),
    ) -> OpResult<AcquireReply> {
        let said = Arc::clone(&self).carry_out(route, Arc::clone(&key), op, encoded).await?;
        let NodeReply { node, link, mut reply } = said;
        // The time of a node that no longer serves the slot must not be compared with the time of a grant.
        if let AcquireReply::Busy { server_time, .. } = &mut reply
            && !self.serves(&node, &key)
        {
            *server_time = None;
        }
        Ok(if reply.names_a_marker() { Box::pin(node.exec.named(&link, &key, reply)).await } else { reply })
    }

    /// Executes a release or a renewal.
    pub(super) async fn operate<O: Operation>(
        self: Arc<Self>,
        route: (Arc<Node>, Arc<Link>),
        key: Arc<str>,
        op: O,
        encoded: (Cmd, Encoding),
    ) -> OpResult<O::Reply> {
        self.carry_out(route, key, op, encoded).await.map(|said| said.reply)
    }

    pub(super) async fn carry_on<O: Operation>(
        &self,
        answered: NodeReplies,
        key: &str,
        op: &O,
        without_link: WithoutLink,
    ) -> OpResult<NodeReply<O::Reply>> {
        let question = Question::Op(op.encoder());
        let mut answered = self.follow(answered, key, question, without_link).await?;
        let value = answered.values.pop().ok_or_else(|| exec::garbled(&answered.link))?;
        self.understand(answered, key, op, value)
    }

    pub(super) fn understand<O: Operation>(
        &self,
        answered: NodeReplies,
        key: &str,
        op: &O,
        value: Value,
    ) -> OpResult<NodeReply<O::Reply>> {
        if let Value::ServerError(error) = &value
            && error.code() == "CLUSTERDOWN"
        {
            self.refresh.notify_one();
        }
        let NodeReplies { node, link, encoding, .. } = answered;
        let reply = node.exec.decode(&link, key, op, encoding, value)?;
        Ok(NodeReply { node, link, reply })
    }

    fn serves(&self, node: &Node, key: &str) -> bool {
        self.map().owner(self.wire.names.slot(key)).is_some_and(|owner| owner.address == node.address)
    }

    /// Follows redirections until a node answers.
    async fn follow(
        &self,
        mut last: NodeReplies,
        key: &str,
        question: Question<'_>,
        without_link: WithoutLink,
    ) -> Result<NodeReplies, StoreError> {
        let mut slot = SlotState::Settled;
        for _ in 0..MAX_REDIRECTIONS {
            let again = last.values.iter().find_map(|value| last.node.exec.again(key, value, last.encoding));
            if again.is_none() {
                let Some(error) = first_error(&last.values) else { return Ok(last) };
                // Independent servers do not redirect, because they do not know each other.
                if self.shards.is_some() {
                    return Ok(last);
                }
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
                    None if without_link == WithoutLink::Fails => return Err(last.node.not_connected()),
                    None => last.node.link_soon().await?,
                };
            }
            let (cmds, encoding) = question.cmds(&last.node.exec, again, key);
            last.encoding = encoding;
            last.values = ask(&last.link, cmds, slot).await?;
        }
        match first_error(&last.values) {
            None => Ok(last),
            Some(error) => {
                let text = format!("the cluster's nodes do not agree on who serves this key ({error})");
                Err(errors::found(Failure::Later, text))
            }
        }
    }

    /// Sends one question to the node that serves its key.
    async fn inquire(
        &self,
        (node, link): (Arc<Node>, Arc<Link>),
        key: &str,
        question: Question<'_>,
    ) -> Result<NodeReplies, StoreError> {
        let (cmds, encoding) = question.cmds(&node.exec, None, key);
        let values = exec::ask_all(&link, cmds).await?;
        let answered = NodeReplies { node, link, encoding, values };
        let answered = self.follow(answered, key, question, WithoutLink::Waits).await?;
        match first_error(&answered.values) {
            Some(error) => Err(exec::failed(&answered.link, error.clone())),
            None => Ok(answered),
        }
    }

    /// Requests several locks of one slot.
    pub(super) async fn carry_out_acquire_all(
        self: Arc<Self>,
        route: (Arc<Node>, Arc<Link>),
        batch: Vec<(Arc<str>, op::Acquire)>,
    ) -> Vec<OpResult<BatchReply>> {
        let Some((key, _)) = batch.first() else { return Vec::new() };
        let replies = match self.inquire(route, key, Question::AcquireAll(&batch)).await {
            Ok(NodeReplies { node, link, values, .. }) => {
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

    pub(super) async fn force(
        self: Arc<Self>,
        route: (Arc<Node>, Arc<Link>),
        key: Arc<str>,
        owner: Option<Arc<str>>,
    ) -> Result<bool, StoreError> {
        let answered = self.inquire(route, &key, Question::Force(owner.as_deref())).await?;
        let value = answered.values.first().unwrap_or(&Value::Nil);
        reply::of_force(value).map_err(|reply::Garbled| exec::garbled(&answered.link))
    }
}
