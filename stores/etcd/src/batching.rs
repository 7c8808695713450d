//! Transactions that arrive together, and are sent as one.
//!
//! For a member, a request costs more than the work of most transactions. So only a few transactions are sent on their
//! own. While these are in flight, the sender sends all others that have arrived since it last ran as one, and waits
//! for no reply: through a link that takes time, a wait for another reply would cost a round trip. etcd decides each
//! inner transaction by its own comparisons, with the store as it was before the outer transaction. So a batch contains
//! at most one transaction for each lock.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use etcd_client::{Txn, TxnOp};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

use super::errors::LinkError;
use super::transactions::TxnReply;

/// The number of transactions that their callers may have in flight, each on its own. Further ones go through the
/// sender. A program with few locks has no more than this at a time.
const MOST_DIRECT: usize = 4;
/// The maximum number of transactions in a batch. A server accepts 128 operations (`--max-txn-ops`): those of the outer
/// transaction plus those of the longest inner one. While it executes them, it does nothing else.
const MOST_IN_BATCH: usize = 32;

/// The route of transactions to a member.
#[derive(Clone)]
pub(super) struct Batcher {
    alone: Arc<Semaphore>,
    waiting: mpsc::UnboundedSender<Queued>,
}

/// The waiting transactions, for the next sender.
pub(super) struct Batches {
    coming: mpsc::UnboundedReceiver<Queued>,
    /// The transactions that did not fit into the last batch.
    left: VecDeque<Queued>,
}

struct Queued {
    key: Arc<str>,
    txn: Txn,
    answer: oneshot::Sender<Result<TxnReply, LinkError>>,
}

/// The next step of a caller.
pub(super) enum Route<'a> {
    /// Send it, and keep the permit until the reply arrives.
    Direct(Txn, SemaphorePermit<'a>),
    /// Wait for the reply. An error means that batches are no longer sent, and that this one may have been sent.
    Batched(oneshot::Receiver<Result<TxnReply, LinkError>>),
    /// It was not sent: the connection has ended.
    Closed,
}

/// Transactions that are sent as one.
struct Batch(Vec<Queued>);

/// The callers that wait for the reply to a batch.
struct ReplySenders(Vec<oneshot::Sender<Result<TxnReply, LinkError>>>);

pub(super) fn batcher() -> (Batcher, Batches) {
    let (waiting, coming) = mpsc::unbounded_channel();
    let alone = Arc::new(Semaphore::new(MOST_DIRECT));
    (Batcher { alone, waiting }, Batches { coming, left: VecDeque::new() })
}

impl Batcher {
    /// `key` is the lock of the transaction.
    pub(super) fn route(&self, key: &Arc<str>, txn: Txn) -> Route<'_> {
        if let Ok(permit) = self.alone.try_acquire() {
            return Route::Direct(txn, permit);
        }
        let (answer, answered) = oneshot::channel();
        match self.waiting.send(Queued { key: key.clone(), txn, answer }) {
            Ok(()) => Route::Batched(answered),
            Err(_) => Route::Closed,
        }
    }
}

impl Batches {
    /// Sends the waiting transactions with `send`, which returns the reply. No batch waits for the reply to another
    /// one. Never ends.
    pub(super) async fn send_by<F>(mut self, send: impl Fn(Txn) -> F)
    where
        F: Future<Output = Result<TxnReply, LinkError>> + Send + 'static,
    {
        let mut in_flight = JoinSet::new();
        loop {
            tokio::select! {
                batch = self.next() => {
                    let (txn, replies) = batch.split();
                    let reply = send(txn);
                    in_flight.spawn(async move { replies.send(reply.await) });
                }
                // Removes the tasks that have ended.
                Some(_) = in_flight.join_next() => {}
            }
        }
    }

    /// Waits for a transaction, and returns all that wait. Never ends if no caller is left.
    async fn next(&mut self) -> Batch {
        loop {
            if self.left.is_empty() {
                match self.coming.recv().await {
                    Some(asked) => self.left.push_back(asked),
                    None => std::future::pending().await,
                }
            }
            while let Ok(asked) = self.coming.try_recv() {
                self.left.push_back(asked);
            }
            let batch = self.take();
            if !batch.0.is_empty() {
                return batch;
            }
        }
    }

    fn take(&mut self) -> Batch {
        let (mut batch, mut keys) = (Vec::new(), HashSet::new());
        for asked in std::mem::take(&mut self.left) {
            // Its caller was dropped, so it is not sent.
            if asked.answer.is_closed() {
                continue;
            }
            if batch.len() < MOST_IN_BATCH && keys.insert(asked.key.clone()) {
                batch.push(asked);
            } else {
                self.left.push_back(asked);
            }
        }
        Batch(batch)
    }
}

impl Batch {
    /// The batch to send, and the callers that wait for its reply.
    fn split(self) -> (Txn, ReplySenders) {
        let (inner, answers): (Vec<TxnOp>, _) =
            self.0.into_iter().map(|asked| (TxnOp::txn(asked.txn), asked.answer)).unzip();
        (Txn::new().and_then(inner), ReplySenders(answers))
    }
}

impl ReplySenders {
    /// Passes the reply to all callers.
    fn send(self, reply: Result<TxnReply, LinkError>) {
        let count = self.0.len();
        let parts = reply.map(TxnReply::parts).and_then(|parts| match parts.len() {
            all if all == count => Ok(parts),
            other => Err(LinkError::unknown(format!("{count} questions, {other} answers"))),
        });
        let parts = match parts {
            Ok(parts) => parts.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        };
        for (answer, reply) in self.0.into_iter().zip(parts) {
            // A caller that was dropped since then needs no reply.
            drop(answer.send(reply));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(batcher: &Batcher, key: &str) -> oneshot::Receiver<Result<TxnReply, LinkError>> {
        match batcher.route(&Arc::from(key), Txn::new()) {
            Route::Batched(answered) => answered,
            Route::Direct(..) | Route::Closed => panic!("sent alone"),
        }
    }

    fn all_permits(batcher: &Batcher) -> Vec<Route<'_>> {
        (0..MOST_DIRECT).map(|_| batcher.route(&Arc::from("k"), Txn::new())).collect()
    }

    fn keys(batch: &Batch) -> Vec<&str> {
        batch.0.iter().map(|asked| &*asked.key).collect()
    }

    #[test]
    fn a_few_go_alone_and_others_through_the_sender_until_one_of_them_is_answered() {
        let (batcher, _batches) = batcher();
        let mut alone = all_permits(&batcher);
        assert!(alone.iter().all(|route| matches!(route, Route::Direct(..))));
        assert!(matches!(batcher.route(&Arc::from("k"), Txn::new()), Route::Batched(_)));
        alone.pop();
        assert!(matches!(batcher.route(&Arc::from("k"), Txn::new()), Route::Direct(..)));
    }

    #[tokio::test]
    async fn one_batch_has_one_of_a_lock_and_no_more_than_fit_and_none_that_nobody_waits_for() {
        let (batcher, mut batches) = batcher();
        let _alone = all_permits(&batcher);
        let mut asked = vec![ask(&batcher, "a"), ask(&batcher, "a"), ask(&batcher, "b")];
        drop(ask(&batcher, "gone"));
        asked.extend((0..MOST_IN_BATCH).map(|number| ask(&batcher, &number.to_string())));
        let first = batches.next().await;
        assert_eq!(keys(&first).len(), MOST_IN_BATCH);
        assert_eq!(keys(&first)[..3], ["a", "b", "0"]);
        let second = batches.next().await;
        assert_eq!(keys(&second), ["a", "30", "31"]);
    }

    #[tokio::test]
    async fn no_batch_waits_for_the_reply_to_another_one() {
        let (batcher, batches) = batcher();
        let _alone = all_permits(&batcher);
        let (sent, mut sends) = mpsc::unbounded_channel();
        let send = move |_| {
            let (reply, replied) = oneshot::channel();
            sent.send(reply).unwrap();
            async { replied.await.unwrap() }
        };
        let sender = tokio::spawn(batches.send_by(send));
        let mut first = ask(&batcher, "a");
        let reply_to_first = sends.recv().await.unwrap();
        let second = ask(&batcher, "b");
        let failure = LinkError::later("the leader changed");
        assert!(sends.recv().await.unwrap().send(Err(failure.clone())).is_ok());
        assert!(second.await.unwrap().is_err());
        assert!(first.try_recv().is_err(), "it has no reply");
        assert!(reply_to_first.send(Err(failure)).is_ok());
        assert!(first.await.unwrap().is_err());
        sender.abort();
    }

    #[tokio::test]
    async fn everybody_in_a_batch_learns_of_its_failure() {
        let (batcher, mut batches) = batcher();
        let _alone = all_permits(&batcher);
        let asked = [ask(&batcher, "a"), ask(&batcher, "b")];
        batches.next().await.split().1.send(Err(LinkError::later("the leader changed")));
        for answered in asked {
            let error = answered.await.unwrap().unwrap_err();
            assert!(error.store.to_string().contains("the leader changed"));
        }
    }

    #[tokio::test]
    async fn an_answer_with_another_number_of_parts_counts_for_nobody() {
        let (batcher, mut batches) = batcher();
        let _alone = all_permits(&batcher);
        let asked = ask(&batcher, "a");
        batches.next().await.split().1.send(Ok(TxnReply::default()));
        assert!(asked.await.unwrap().is_err());
    }

    #[tokio::test]
    async fn nothing_is_collected_that_nobody_will_send() {
        let (batcher, batches) = batcher();
        let _alone = all_permits(&batcher);
        let asked = ask(&batcher, "a");
        drop(batches);
        assert!(asked.await.is_err());
        assert!(matches!(batcher.route(&Arc::from("k"), Txn::new()), Route::Closed));
    }
}
