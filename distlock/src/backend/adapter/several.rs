//! Several keys by one command, if the store supports it.

use std::sync::Arc;

use super::translate::Translator;
use super::{Need, PolledBy, StoreBackend, boxed};
use crate::backend::fail_all::fail_all;
use crate::backend::{BatchReply, BoxFuture, OpResult, RenewReply, Token, op};
use distlock_store::{Acquire, LockStore, Renew};

/// Results to come, for operations next to each other in a batch.
type BatchResults<T> = BoxFuture<Vec<OpResult<T>>>;

impl<S: LockStore> StoreBackend<S> {
    /// Renewals go out together as far as the store takes them. All of them have their place in the order when
    /// this returns.
    pub(super) fn begin_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> BatchResults<RenewReply> {
        let mut parts: Vec<BatchResults<RenewReply>> = Vec::new();
        let mut renewals: Vec<(Arc<str>, Renew)> = Vec::new();
        for (key, op) in batch {
            if self.abilities.renews_together <= 1 {
                parts.push(self.begin_alone(&key, op));
                continue;
            }
            let is_full = renewals.len() >= self.abilities.renews_together;
            if is_full || renewals.iter().any(|(other, _)| *other == key) {
                self.begin_renewals(&mut renewals, &mut parts);
            }
            let renew = self.translator.renew(&key, op);
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

    fn begin_alone(&self, key: &Arc<str>, op: op::Renew) -> BatchResults<RenewReply> {
        match self.begin_renew(key, op) {
            Ok(answer) => Box::pin(async { vec![answer.await] }),
            Err(error) => Box::pin(std::future::ready(vec![Err(error)])),
        }
    }

    fn begin_renewals(
        &self,
        renewals: &mut Vec<(Arc<str>, Renew)>,
        parts: &mut Vec<BatchResults<RenewReply>>,
    ) {
        if renewals.is_empty() {
            return;
        }
        let (keys, requests): (Vec<Arc<str>>, Vec<Renew>) = renewals.drain(..).unzip();
        let count = keys.len();
        let call = |this: Arc<Self>| boxed(async move { this.store.renew_all(&requests).await });
        let answer = self.submit(keys.into(), (Need::Connection, PolledBy::Caller), call, |_, _| {});
        parts.push(Box::pin(async move {
            let replies = match answer {
                Ok(answer) => answer.await,
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
