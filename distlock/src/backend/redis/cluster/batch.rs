//! Many operations at once. The operations for one node share its round trips.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use redis::{Cmd, Value};

use super::follow::{NodeReplies, WithoutLink};
use super::node::Node;
use super::{ClusterBackend, ClusterShared};
use crate::backend::fail_all::fail_all;
use crate::backend::redis::errors;
use crate::backend::redis::exec::{MAX_COMMANDS_AT_ONCE, ask_all};
use crate::backend::redis::link::Link;
use crate::backend::redis::operation::{Encoding, Operation};
use crate::backend::{BatchPart, BoxFuture, Failure, OpResult};

impl ClusterBackend {
    /// Executes many operations, with one round trip for each node if possible. Returns one result for each, in order.
    pub(in crate::backend::redis) fn send_batch<O: Operation>(
        &self,
        batch: Vec<(Arc<str>, O)>,
    ) -> BoxFuture<Vec<OpResult<O::Reply>>> {
        let mut results: Vec<Option<OpResult<O::Reply>>> = batch.iter().map(|_| None).collect();
        let parts = self.send_parts(batch);
        let (places, parts): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|part| (part.places, part.results)).unzip();
        Box::pin(async move {
            for (places, said) in places.into_iter().zip(join_all(parts).await) {
                for (place, result) in places.into_iter().zip(said) {
                    if let Some(of_place) = results.get_mut(place) {
                        *of_place = Some(result);
                    }
                }
            }
            let missing =
                || Err(errors::found(Failure::Unknown, "the cluster answered fewer commands than were sent"));
            results.into_iter().map(|result| result.unwrap_or_else(missing)).collect()
        })
    }

    /// A part for each node.
    pub(super) fn send_parts<O: Operation>(&self, batch: Vec<(Arc<str>, O)>) -> Vec<BatchPart<O::Reply>> {
        type Share<O> = ((Arc<Node>, Arc<Link>), Vec<usize>, Vec<(Arc<str>, O)>);
        let mut parts = Vec::new();
        let mut shares: Vec<Share<O>> = Vec::new();
        for (place, (key, op)) in batch.into_iter().enumerate() {
            match self.shared.route(&key) {
                Err(error) => {
                    let results = Box::pin(std::future::ready(vec![Err(error)]));
                    parts.push(BatchPart { places: vec![place], results });
                }
                Ok(route) => match shares.iter_mut().find(|((_, link), ..)| Arc::ptr_eq(link, &route.1)) {
                    Some((_, places, share)) => {
                        places.push(place);
                        share.push((key, op));
                    }
                    None => shares.push((route, vec![place], vec![(key, op)])),
                },
            }
        }
        parts.extend(shares.into_iter().map(|(route, places, share)| BatchPart {
            places,
            results: Box::pin(Arc::clone(&self.shared).share(route, share)),
        }));
        parts
    }
}

impl ClusterShared {
    /// The part of a batch that one node serves.
    async fn share<O: Operation>(
        self: Arc<Self>,
        (node, link): (Arc<Node>, Arc<Link>),
        share: Vec<(Arc<str>, O)>,
    ) -> Vec<OpResult<O::Reply>> {
        let mut results = Vec::with_capacity(share.len());
        let mut redirected = Vec::new();
        for piece in share.chunks(MAX_COMMANDS_AT_ONCE) {
            if link.liveness.has_ended() {
                results.extend(piece.iter().map(|_| Err(node.not_connected())));
                continue;
            }
            let (cmds, encodings): (Vec<Cmd>, Vec<Encoding>) =
                piece.iter().map(|(key, op)| node.exec.encode(key, op.encoder())).unzip();
            let values = match ask_all(&link, cmds).await {
                Ok(values) => values,
                Err(error) => {
                    results.extend(fail_all(piece.len(), &error));
                    continue;
                }
            };
            for (((key, op), encoding), value) in piece.iter().zip(encodings).zip(values) {
                let mut answered =
                    NodeReplies { node: node.clone(), link: link.clone(), encoding, values: vec![] };
                if matches!(value, Value::ServerError(_)) {
                    answered.values.push(value);
                    redirected.push((results.len(), answered));
                    results.push(Err(node.not_connected()));
                } else {
                    results.push(self.understand(answered, key, op, value).map(|said| said.reply));
                }
            }
        }
        // All at once, when every other operation has its reply.
        let followed = redirected.into_iter().filter_map(|(place, answered)| {
            let ((key, op), this) = (share.get(place)?, &self);
            let followed: Pin<Box<dyn Future<Output = _> + Send + '_>> = Box::pin(async move {
                (place, this.carry_on(answered, key, op, WithoutLink::Fails).await.map(|said| said.reply))
            });
            Some(followed)
        });
        for (place, said) in join_all(followed.collect()).await {
            if let Some(result) = results.get_mut(place) {
                *result = said;
            }
        }
        results
    }
}

/// Polls all futures, in order, until each has its output.
pub(super) async fn join_all<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
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
