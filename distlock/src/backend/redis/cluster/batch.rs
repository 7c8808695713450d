//! Many operations at once. The operations for one node share its round trips.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use redis::{Cmd, Value};

use super::follow::NodeReplies;
use super::node::Node;
use super::question::{SlotState, ask};
use super::{ClusterBackend, ClusterShared};
use crate::backend::redis::errors;
use crate::backend::redis::exec::MAX_COMMANDS_AT_ONCE;
use crate::backend::redis::link::Link;
use crate::backend::redis::operation::{Encoding, Operation};
use crate::backend::{BoxFuture, Failure, OpResult};

/// Results, each with its place in the batch.
type Placed<T> = Vec<(usize, OpResult<T>)>;

impl ClusterBackend {
    /// Executes many operations, with one round trip for each node if possible. Returns one result for each, in order.
    pub(in crate::backend::redis) fn send_batch<O: Operation>(
        &self,
        batch: Vec<(Arc<str>, O)>,
    ) -> BoxFuture<Vec<OpResult<O::Reply>>> {
        type Share<O> = ((Arc<Node>, Arc<Link>), Vec<(usize, Arc<str>, O)>);
        let mut results: Vec<Option<OpResult<O::Reply>>> = Vec::with_capacity(batch.len());
        let mut shares: Vec<Share<O>> = Vec::new();
        for (at, (key, op)) in batch.into_iter().enumerate() {
            match self.shared.route(&key) {
                Err(error) => results.push(Some(Err(error))),
                Ok(route) => {
                    results.push(None);
                    let known = shares.iter_mut().find(|((_, link), _)| Arc::ptr_eq(link, &route.1));
                    match known {
                        Some((_, share)) => share.push((at, key, op)),
                        None => shares.push((route, vec![(at, key, op)])),
                    }
                }
            }
        }
        let shared = Arc::clone(&self.shared);
        let shares = shares
            .into_iter()
            .map(|(route, share)| -> BoxFuture<_> { Box::pin(Arc::clone(&shared).share(route, share)) });
        let shares: Vec<BoxFuture<Placed<O::Reply>>> = shares.collect();
        Box::pin(async move {
            for (at, result) in join_all(shares).await.into_iter().flatten() {
                if let Some(place) = results.get_mut(at) {
                    *place = Some(result);
                }
            }
            let missing =
                || Err(errors::found(Failure::Unknown, "the cluster answered fewer commands than were sent"));
            results.into_iter().map(|result| result.unwrap_or_else(missing)).collect()
        })
    }
}

impl ClusterShared {
    /// The part of a batch that one node serves: the results, each with its place in the batch.
    async fn share<O: Operation>(
        self: Arc<Self>,
        (node, link): (Arc<Node>, Arc<Link>),
        share: Vec<(usize, Arc<str>, O)>,
    ) -> Placed<O::Reply> {
        let mut results = Vec::with_capacity(share.len());
        for piece in share.chunks(MAX_COMMANDS_AT_ONCE) {
            if link.liveness.has_ended() {
                results.extend(piece.iter().map(|(at, ..)| (*at, Err(node.not_connected()))));
                continue;
            }
            let (cmds, encodings): (Vec<Cmd>, Vec<Encoding>) =
                piece.iter().map(|(_, key, op)| node.exec.encode(key, op.encoder())).unzip();
            let values = match ask(&link, cmds, SlotState::Settled).await {
                Ok(values) => values,
                Err(error) => {
                    results.extend(piece.iter().map(|(at, ..)| (*at, Err(error.clone()))));
                    continue;
                }
            };
            for (((at, key, op), encoding), value) in piece.iter().zip(encodings).zip(values) {
                let (node, link) = (Arc::clone(&node), Arc::clone(&link));
                let mut answered = NodeReplies { node, link, encoding, values: vec![] };
                let said = if matches!(value, Value::ServerError(_)) {
                    answered.values.push(value);
                    self.carry_on(answered, key, op).await
                } else {
                    self.understand(answered, key, op, value)
                };
                results.push((*at, said.map(|said| said.reply)));
            }
        }
        results
    }
}

/// Polls all futures, in order, until each has its output.
pub(super) async fn join_all<T>(mut futures: Vec<BoxFuture<T>>) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(done) = Pin::as_mut(future).poll(cx)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
