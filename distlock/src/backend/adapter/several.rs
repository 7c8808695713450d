//! Several keys by one command, if the store supports it.

use std::sync::Arc;

use super::translate::Translator;
use super::{Need, PolledBy, StoreBackend, boxed};
use crate::backend::fail_all::fail_all;
use crate::backend::{BatchPart, BatchReply, BoxFuture, OpResult, RenewReply, Token, op};
use distlock_store::{Acquire, LockStore, Renew};

/// Results to come, for operations next to each other in a batch.
type BatchResults<T> = BoxFuture<Vec<OpResult<T>>>;

impl<S: LockStore> StoreBackend<S> {
    /// Renewals go out together as far as the store takes them. All of them have their place in the order when
    /// this returns.
    pub(super) fn begin_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> Vec<BatchPart<RenewReply>> {
        let mut parts = Vec::new();
        let mut together: Vec<(usize, Arc<str>, Renew)> = Vec::new();
        for (place, (key, op)) in batch.into_iter().enumerate() {
            if self.abilities.renews_together <= 1 {
                let results: BoxFuture<_> = match self.begin_renew(&key, op) {
                    Ok(answer) => Box::pin(async { vec![answer.await] }),
                    Err(error) => Box::pin(std::future::ready(vec![Err(error)])),
                };
                parts.push(BatchPart { places: vec![place], results });
                continue;
            }
            let is_full = together.len() >= self.abilities.renews_together;
            if is_full || together.iter().any(|(_, other, _)| *other == key) {
                parts.push(self.begin_renewals(std::mem::take(&mut together)));
            }
            let renew = self.translator.renew(&key, op);
            together.push((place, key, renew));
        }
        if !together.is_empty() {
            parts.push(self.begin_renewals(together));
        }
        parts
    }

    fn begin_renewals(&self, together: Vec<(usize, Arc<str>, Renew)>) -> BatchPart<RenewReply> {
        let places = together.iter().map(|(place, ..)| *place).collect();
        let (keys, requests): (Vec<Arc<str>>, Vec<Renew>) =
            together.into_iter().map(|(_, key, renew)| (key, renew)).unzip();
        let count = keys.len();
        let call = |this: Arc<Self>| boxed(async move { this.store.renew_all(&requests).await });
        let answer = self.submit(keys.into(), (Need::Connection, PolledBy::Caller), call, |_, _| {});
        let results = async move {
            let replies = match answer {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            match replies {
                Ok((replies, asked)) => {
                    replies.into_iter().map(|reply| Ok(Translator::renewed(reply, asked))).collect()
                }
                Err(error) => fail_all(count, &error),
            }
        };
        BatchPart { places, results: Box::pin(results) }
    }

    /// Acquires several locks by one command; see [`LockStore::acquire_all`].
    pub(super) fn begin_acquire_all(&self, batch: Vec<(Arc<str>, op::Acquire)>) -> BatchResults<BatchReply> {
        let count = batch.len();
        let keys: Arc<[Arc<str>]> = batch.iter().map(|(key, _)| key.clone()).collect();
        let requests: Vec<Acquire> =
            batch.iter().map(|(key, op)| self.translator.acquire(key, *op)).collect();
        let owners: Vec<(Arc<str>, Token)> = batch.into_iter().map(|(key, op)| (key, op.token)).collect();
        let late = move |this: &Self, replies: Vec<_>| {
            for ((key, token), reply) in owners.iter().zip(&replies) {
                this.late(key, *token, None, reply);
            }
        };
        let sent = requests.clone();
        let call = |this: Arc<Self>| boxed(async move { this.store.acquire_all(&sent).await });
        let answer = self.submit(keys, (Need::Session, PolledBy::Caller), call, late);
        Box::pin(async move {
            let replies = match answer {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            let (replies, asked) = match replies {
                Ok(replies) => replies,
                Err(error) => return fail_all(count, &error),
            };
            let said = requests.iter().zip(replies);
            let said = said.map(|(request, reply)| Translator::acquired(request, reply, asked));
            let mut results: Vec<_> = said.map(|result| result.map(BatchReply::Tried)).collect();
            results.resize_with(count, || Ok(BatchReply::Skipped));
            results
        })
    }
}
