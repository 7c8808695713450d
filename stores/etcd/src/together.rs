//! Transactions that wait until others of this process are answered, and are then sent as one.
//!
//! A request costs a member more than what most transactions ask of it. Few are sent by those who ask, at once; while
//! these are under way, the others are collected. etcd decides each transaction inside of another one by its own
//! comparisons, of the store as it was before the whole; so one batch has one transaction of a lock at most.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use etcd_client::{Txn, TxnOp};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};

use super::errors::Trouble;
use super::transactions::Said;

/// So many requests are under way before others wait: as many as a program with little to do has at a time.
const ALONE: usize = 4;
/// The most in one batch. A server takes 128 operations (`--max-txn-ops`), counted as those of the outer transaction
/// and those of the longest inner one; and while it carries them out it does nothing else.
const MOST: usize = 32;

/// The way of transactions to a member.
#[derive(Clone)]
pub(super) struct Together {
    alone: Arc<Semaphore>,
    waiting: mpsc::UnboundedSender<Asked>,
}

/// Those that wait, for whoever sends them.
pub(super) struct Batches {
    coming: mpsc::UnboundedReceiver<Asked>,
    /// Those that did not go with the last batch.
    left: VecDeque<Asked>,
}

struct Asked {
    key: Arc<str>,
    txn: Txn,
    answer: oneshot::Sender<Result<Said, Trouble>>,
}

/// What somebody who asks has to do.
pub(super) enum Way<'a> {
    /// Send it, and keep the permit until the answer is there.
    Alone(Txn, SemaphorePermit<'a>),
    /// Wait for the answer. An error: nobody sends batches any more, and this one may have been sent.
    WithOthers(oneshot::Receiver<Result<Said, Trouble>>),
    /// It was not sent: the connection has ended.
    Closed,
}

/// Transactions that are sent as one.
pub(super) struct Batch(Vec<Asked>);

/// Those who wait for the answer to a batch.
pub(super) struct Answers(Vec<oneshot::Sender<Result<Said, Trouble>>>);

pub(super) fn together() -> (Together, Batches) {
    let (waiting, coming) = mpsc::unbounded_channel();
    let alone = Arc::new(Semaphore::new(ALONE));
    (Together { alone, waiting }, Batches { coming, left: VecDeque::new() })
}

impl Together {
    /// `key`: the lock that it is about.
    pub(super) fn way(&self, key: &Arc<str>, txn: Txn) -> Way<'_> {
        if let Ok(permit) = self.alone.try_acquire() {
            return Way::Alone(txn, permit);
        }
        let (answer, answered) = oneshot::channel();
        match self.waiting.send(Asked { key: key.clone(), txn, answer }) {
            Ok(()) => Way::WithOthers(answered),
            Err(_) => Way::Closed,
        }
    }
}

impl Batches {
    /// Those that wait by now, once there is one. Never ends if nobody can ask any more.
    pub(super) async fn next(&mut self) -> Batch {
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
            // Nobody waits for it any more: it is not sent.
            if asked.answer.is_closed() {
                continue;
            }
            if batch.len() < MOST && keys.insert(asked.key.clone()) {
                batch.push(asked);
            } else {
                self.left.push_back(asked);
            }
        }
        Batch(batch)
    }
}

impl Batch {
    /// What is to be sent, and those who wait for its answer.
    pub(super) fn split(self) -> (Txn, Answers) {
        let (inner, answers): (Vec<TxnOp>, _) =
            self.0.into_iter().map(|asked| (TxnOp::txn(asked.txn), asked.answer)).unzip();
        (Txn::new().and_then(inner), Answers(answers))
    }
}

impl Answers {
    /// Tells everybody.
    pub(super) fn tell(self, said: Result<Said, Trouble>) {
        let count = self.0.len();
        let parts = said.map(Said::parts).and_then(|parts| match parts.len() {
            all if all == count => Ok(parts),
            other => Err(Trouble::unknown(format!("{count} questions, {other} answers"))),
        });
        let parts = match parts {
            Ok(parts) => parts.into_iter().map(Ok).collect(),
            Err(trouble) => vec![Err(trouble); count],
        };
        for (answer, said) in self.0.into_iter().zip(parts) {
            // Who has gone since learns nothing.
            drop(answer.send(said));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(together: &Together, key: &str) -> oneshot::Receiver<Result<Said, Trouble>> {
        match together.way(&Arc::from(key), Txn::new()) {
            Way::WithOthers(answered) => answered,
            Way::Alone(..) | Way::Closed => panic!("sent alone"),
        }
    }

    fn all_permits(together: &Together) -> Vec<Way<'_>> {
        (0..ALONE).map(|_| together.way(&Arc::from("k"), Txn::new())).collect()
    }

    fn keys(batch: &Batch) -> Vec<&str> {
        batch.0.iter().map(|asked| &*asked.key).collect()
    }

    #[test]
    fn a_few_go_alone_and_others_wait_until_one_of_them_is_answered() {
        let (together, _batches) = together();
        let mut alone = all_permits(&together);
        assert!(alone.iter().all(|way| matches!(way, Way::Alone(..))));
        assert!(matches!(together.way(&Arc::from("k"), Txn::new()), Way::WithOthers(_)));
        alone.pop();
        assert!(matches!(together.way(&Arc::from("k"), Txn::new()), Way::Alone(..)));
    }

    #[tokio::test]
    async fn one_batch_has_one_of_a_lock_and_no_more_than_fit_and_none_that_nobody_waits_for() {
        let (together, mut batches) = together();
        let _alone = all_permits(&together);
        let mut asked = vec![ask(&together, "a"), ask(&together, "a"), ask(&together, "b")];
        drop(ask(&together, "gone"));
        asked.extend((0..MOST).map(|number| ask(&together, &number.to_string())));
        let first = batches.next().await;
        assert_eq!(keys(&first).len(), MOST);
        assert_eq!(keys(&first)[..3], ["a", "b", "0"]);
        let second = batches.next().await;
        assert_eq!(keys(&second), ["a", "30", "31"]);
    }

    #[tokio::test]
    async fn everybody_in_a_batch_learns_of_its_failure() {
        let (together, mut batches) = together();
        let _alone = all_permits(&together);
        let asked = [ask(&together, "a"), ask(&together, "b")];
        batches.next().await.split().1.tell(Err(Trouble::later("the leader changed")));
        for answered in asked {
            let trouble = answered.await.unwrap().unwrap_err();
            assert!(trouble.error.to_string().contains("the leader changed"));
        }
    }

    #[tokio::test]
    async fn an_answer_with_another_number_of_parts_counts_for_nobody() {
        let (together, mut batches) = together();
        let _alone = all_permits(&together);
        let asked = ask(&together, "a");
        batches.next().await.split().1.tell(Ok(Said::default()));
        assert!(asked.await.unwrap().is_err());
    }

    #[tokio::test]
    async fn nothing_is_collected_that_nobody_will_send() {
        let (together, batches) = together();
        let _alone = all_permits(&together);
        let asked = ask(&together, "a");
        drop(batches);
        assert!(asked.await.is_err());
        assert!(matches!(together.way(&Arc::from("k"), Txn::new()), Way::Closed));
    }
}
