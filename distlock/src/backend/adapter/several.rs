//! Several keys by one command, where the store can.

use std::sync::Arc;

use super::translate::{Request, Translator};
use super::{Need, StoreBackend, answered, boxed};
use crate::backend::{BoxFuture, Op, OpError, OpResult, Reply, Token};
use crate::store::{Acquire, LockStore, Renew};

/// Results to come, for operations next to each other in a batch.
type Part = BoxFuture<Vec<OpResult>>;

impl<S: LockStore> StoreBackend<S> {
    /// Renewals go out together as far as the store takes them; everything else one by one. All of them have their
    /// place in the order when this returns.
    pub(super) fn begin_batch(&self, batch: Vec<(Arc<str>, Op)>) -> Part {
        let mut parts: Vec<Part> = Vec::new();
        let mut renewals: Vec<(Arc<str>, Renew)> = Vec::new();
        for (key, op) in batch {
            let renew = match self.translator.request(&key, &op) {
                Ok(Request::Renew(renew)) if self.abilities.renews_together > 1 => renew,
                _ => {
                    self.begin_renewals(&mut renewals, &mut parts);
                    parts.push(self.begin_alone(&key, &op));
                    continue;
                }
            };
            let is_full = renewals.len() >= self.abilities.renews_together;
            if is_full || renewals.iter().any(|(other, _)| *other == key) {
                self.begin_renewals(&mut renewals, &mut parts);
            }
            renewals.push((key, renew));
        }
        self.begin_renewals(&mut renewals, &mut parts);
        Box::pin(async move {
            let mut results = Vec::new();
            for part in parts {
                results.extend(part.await);
            }
            results
        })
    }

    fn begin_alone(&self, key: &Arc<str>, op: &Op) -> Part {
        match self.begin(key, op) {
            Ok(answer) => Box::pin(async { vec![answer.await] }),
            Err(error) => Box::pin(std::future::ready(vec![Err(error)])),
        }
    }

    fn begin_renewals(&self, renewals: &mut Vec<(Arc<str>, Renew)>, parts: &mut Vec<Part>) {
        if renewals.is_empty() {
            return;
        }
        let (keys, requests): (Vec<Arc<str>>, Vec<Renew>) = renewals.drain(..).unzip();
        let count = keys.len();
        let call = |this: Arc<Self>, _| boxed(async move { this.store.renew_all(&requests).await });
        let answer = self.submit(keys.into(), Need::Connection, call, |_, _| {});
        parts.push(Box::pin(async move {
            let replies = match answer {
                Ok(answer) => answered(answer).await,
                Err(error) => Err(error),
            };
            match replies {
                // One that is missing counts as unanswered.
                Ok((replies, asked)) => replies
                    .into_iter()
                    .take(count)
                    .map(|reply| Ok(Translator::renewed(reply, asked)))
                    .collect(),
                Err(error) => fail_all(count, &error),
            }
        }));
    }

    /// Takes several locks by one command; see [`LockStore::acquire_all`].
    pub(super) fn begin_together(&self, batch: Vec<(Arc<str>, Op)>) -> Part {
        let count = batch.len();
        let mut asked_for: Vec<(Arc<str>, Token, Acquire)> = Vec::with_capacity(count);
        for (key, op) in &batch {
            if let Ok(Request::Acquire(token, request)) = self.translator.request(key, op) {
                asked_for.push((key.clone(), token, request));
            }
        }
        let keys: Arc<[Arc<str>]> = asked_for.iter().map(|(key, ..)| key.clone()).collect();
        let requests: Vec<Acquire> = asked_for.iter().map(|(.., request)| request.clone()).collect();
        let owners: Vec<(Arc<str>, Token)> =
            asked_for.iter().map(|(key, token, _)| (key.clone(), *token)).collect();
        let late = move |this: &Self, replies: Vec<_>| {
            for ((key, token), reply) in owners.iter().zip(&replies) {
                this.late(key, *token, false, reply);
            }
        };
        let sent = requests.clone();
        let call = |this: Arc<Self>, _| boxed(async move { this.store.acquire_all(&sent).await });
        let answer = self.submit(keys, Need::Session, call, late);
        let this = self.this.clone();
        Box::pin(async move {
            let replies = match answer {
                Ok(answer) => answered(answer).await,
                Err(error) => Err(error),
            };
            let (Some(this), Ok((replies, asked))) = (this.upgrade(), &replies) else {
                return fail_all(count, &replies.err().unwrap_or_else(super::ended));
            };
            let said = requests.iter().zip(replies.iter().cloned());
            let said = said.map(|(request, reply)| this.translator.acquired(request, reply, *asked));
            let mut results: Vec<OpResult> = said.collect();
            results.resize_with(count, || Ok(Reply::Skipped));
            results
        })
    }
}

fn fail_all(count: usize, error: &OpError) -> Vec<OpResult> {
    (0..count).map(|_| Err(error.clone())).collect()
}
