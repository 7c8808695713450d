//! Several keys by one command, if the store supports it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::translate::Translator;
use super::{Coming, Need, PolledBy, StoreBackend, boxed};
use crate::backend::fail_all::fail_all;
use crate::backend::{BatchPart, BatchReply, BoxFuture, Failure, OpResult, RenewReply, Token, op};
use distlock_store::{Acquire, LockStore, Renew, StoreError};

/// How long a lease that is renewed alone delays the results of the others. PostgreSQL executes the commands of one
/// connection in turn, so those behind a row that stays locked take half a second.
const ALONE_WITHIN: Duration = Duration::from_millis(750);

/// The renewal of one lease.
type Renewal = (Arc<str>, op::Renew);

/// Results to come, for operations next to each other in a batch.
type BatchResults<T> = BoxFuture<Vec<OpResult<T>>>;

impl<S: LockStore> StoreBackend<S> {
    /// Renewals go out together as far as the store takes them. All of them have their place in the order when
    /// this returns. A command for several keys waits for its turn on all of them, so the renewal of a key that has a
    /// command in flight goes out alone. The last renewal of a lease does too, because no batch hands a lease over.
    pub(super) fn begin_renew_all(&self, batch: Vec<Renewal>) -> Vec<BatchPart<RenewReply>> {
        let mut parts = Vec::new();
        let mut together: Vec<(usize, Renewal)> = Vec::new();
        for (place, (key, op)) in batch.into_iter().enumerate() {
            let is_full = together.len() >= self.abilities.renews_together.max(1);
            if is_full || together.iter().any(|(_, (other, _))| *other == key) {
                parts.push(self.begin_renewals(std::mem::take(&mut together)));
            }
            if self.abilities.renews_together > 1 && !op.last && !self.lanes.lock().is_busy(&key) {
                together.push((place, (key, op)));
                continue;
            }
            let results: BoxFuture<_> = match self.begin_renew(&key, op, PolledBy::Caller) {
                Ok(answer) => Box::pin(async { vec![answer.await] }),
                Err(error) => Box::pin(std::future::ready(vec![Err(error)])),
            };
            parts.push(BatchPart { places: vec![place], results });
        }
        if !together.is_empty() {
            parts.push(self.begin_renewals(together));
        }
        parts
    }

    fn begin_renewals(&self, together: Vec<(usize, Renewal)>) -> BatchPart<RenewReply> {
        let (places, members): (Vec<usize>, Vec<Renewal>) = together.into_iter().unzip();
        let keys = members.iter().map(|(key, _)| key.clone()).collect();
        let requests: Vec<Renew> = members.iter().map(|(key, op)| self.translator.renew(key, *op)).collect();
        let call = |this: Arc<Self>| boxed(async move { this.store.renew_all(&requests).await });
        let answer = self.submit(keys, (Need::Connection, PolledBy::Caller), call, |_, _| {});
        let this = self.this.clone();
        let results = async move {
            let replies = match answer {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            let error = match replies {
                Ok((replies, asked)) => {
                    let renewed = |reply| Ok(Translator::renewed(reply, asked));
                    return replies.into_iter().map(renewed).collect();
                }
                Err(error) => error,
            };
            let count = members.len();
            if let Some(this) = this.upgrade().filter(|_| count > 1 && error.kind == Failure::Later)
                && let Some(io_thread) = this.io_thread.get().cloned()
            {
                let each = io_thread.spawn(this.renew_each(members, error.clone()));
                return each.await.unwrap_or_else(|_| fail_all(count, &error));
            }
            fail_all(count, &error)
        };
        BatchPart { places, results: Box::pin(results) }
    }

    /// Renews these leases one by one, after the store has refused to renew them together. In a database, this happens
    /// if another transaction keeps the row of one of them locked. The results are delivered together, so each is
    /// awaited for a limited time. If the store also refuses the first and the last, it refuses all of them.
    async fn renew_each(
        self: Arc<Self>,
        members: Vec<Renewal>,
        why: StoreError,
    ) -> Vec<OpResult<RenewReply>> {
        let alone = |at: usize| -> Coming<RenewReply> {
            let (key, op) = &members[at];
            // A newer command for the key may end the lease. A renewal from before that must not follow it.
            let is_busy = self.lanes.lock().is_busy(key);
            let begun =
                if is_busy { Err(why.clone()) } else { self.begin_renew(key, *op, PolledBy::IoThread) };
            begun.unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))))
        };
        let by = |end: Instant, answer| {
            let late = why.clone();
            async move { timeout_at(end, answer).await.unwrap_or(Err(late)) }
        };
        let end = || Instant::now() + ALONE_WITHIN;
        let mut results = fail_all(members.len(), &why);
        let mut others = 1..members.len();
        results[0] = by(end(), alone(0)).await;
        if results[0].is_err()
            && let Some(last) = others.next_back()
        {
            results[last] = by(end(), alone(last)).await;
            if results[last].is_err() {
                return results;
            }
        }
        let (begun, end): (Vec<_>, _) = (others.map(|at| (at, alone(at))).collect(), end());
        for (at, answer) in begun {
            results[at] = by(end, answer).await;
        }
        results
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
