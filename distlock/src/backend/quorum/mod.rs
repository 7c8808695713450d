//! Locks on several independent Redis servers. The holder of a lock is the token that a majority of the
//! servers reports (Redlock).
//!
//! An operation goes to all servers at once. (An exception: a request for a lock that others want first goes to the
//! server that keeps its queue, see [`waiting`].) It is decided as soon as the replies of a majority agree. So a server
//! that is slow, hung or gone costs no time while the others are a majority. For the engine, a decision is like the
//! reply of one server: a lease counts from before the command was sent.
//!
//! - [`round`]: one operation, and the result of the servers' replies.
//! - [`coordinator`]: all operations, without I/O. [`tokens`] has the tokens, [`member`] the servers, and [`queue`] the
//!   demand of other processes for a key. [`waiting`] asks for locks, [`follow_up`] releases acquisitions without a
//!   majority, [`repair`] acquires held locks on servers that lack them, and [`membership`] decides which servers are
//!   connected and count.
//! - [`worker`]: executes the coordinator's effects on the I/O thread.
//!
//! The rules, and their reasons:
//!
//! - **Errors are votes.** This process holds a lock if a majority of all servers says so, not a majority of those that
//!   replied.
//! - **Minority acquisitions are released.** If this process acquired the lock only on a minority, it is released
//!   there. On a server that did not reply, it is released as soon as the server is connected again.
//! - **A majority is valid for the lease.** Servers that missed the acquisition acquire the lock later, but they count
//!   for a renewal only if they had the lock for this process without interruption. So an expired lease is never
//!   acquired again unnoticed.
//! - **A held lock is on every server.** On servers that lack it, acquisitions are repeated until it is on every
//!   reachable server ([`repair`]). With a bare majority, the holder would lose it with the next server.
//! - **Another round of the same token may rely on the acquisitions of one round**: they are released only when no
//!   round for that token is open.
//! - **Young servers do not count.** A server that was restarted, or whose data was deleted (its note is gone), may
//!   have forgotten a lock. It counts again when every lease that it may have forgotten has expired. For this, the
//!   longest ttl is noted on each server before it is used. The age of a server is the time since a process first met
//!   this run, by the clocks of a majority. The server's own uptime is not used, because it follows its wall clock.
//!   Before the server counts, it gets the highest fencing token of the others.
//! - **Clocks.** A clock that was set forward ends leases early, like lost memory, so such a server does not count
//!   either. To detect it, every reply to an acquisition contains the server's time. A process that starts later
//!   compares each server's clock with those of a majority. If a clock differs by more than a second, the server counts
//!   for this process only after the longest ttl.
//! - **Waiters queue on one server.** Each key has an order of the servers, which does not depend on the order in the
//!   URL. The queue is on the first server in this order that is connected, replies, and can push to this process. A
//!   release grants the lock to the first waiter on that server only. That waiter then asks all servers, and keeps the
//!   queue server's lock until the release has reached the others. No other waiter asks them during this time. The
//!   queue is only a place to wait: a majority decides who holds the lock, with or without that server. A waiter asks
//!   all servers at every heartbeat, and immediately when the queue server is lost. If the queue server is silent, the
//!   waiter asks the others.
//! - **Fencing tokens by proposal.** Each server keeps the highest token it has seen. A client proposes its clock, or
//!   one more than the highest token it knows. If all servers of a majority know only lower tokens, the proposal is the
//!   token. Otherwise the token is one more than the highest that they know. It is valid as soon as it is stored on a
//!   majority that still has the lock for this process. Any two majorities share a server, so tokens rise whatever the
//!   clocks do.

mod coordinator;
#[cfg(test)]
mod coordinator_tests;
mod effect;
mod follow_up;
mod formation;
mod majority;
mod member;
mod member_events;
mod membership;
mod missing;
mod queue;
mod repair;
mod round;
mod server_reply;
mod servers;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
mod tokens;
mod waiting;
mod worker;

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::fail_all::fail_all;
use super::redis::{Origin, RedisBackend, RedisConfig, ScanResult, Search, ServerNote};
use super::{
    AcquireReply, Backend, BatchPart, BoxFuture, Clocks, Demand, Events, Failure, HoldNote, ListPage,
    LockKind, Notifications, OpResult, Others, Push, ReleaseReply, RenewReply, Sending, StoreError,
    StoredLock, StoredLocks, Tuning, op,
};
use crate::contained::with_contained_waker;
use crate::error::LockError;
use coordinator::Coordinator;
use distlock_store::engine::Time;
use distlock_store::kit::sync::Locked;
use distlock_store::{Finding, Severity};
use effect::{MemberReply, NewLink, RoundOp, RoundOutcome, Writing};
use majority::{agreed, gathered, of_a_majority, released};
use member_events::MemberEvents;
use servers::Servers;
use worker::Worker;

/// Locks on a majority of several servers.
pub(crate) struct QuorumBackend {
    nodes: Vec<Arc<RedisBackend>>,
    names: Vec<String>,
    prefix: String,
    longest_ttl: Duration,
    /// `true` while a majority is connected.
    up: Arc<AtomicBool>,
    /// Of the last call of [`Backend::run`]. After a panic, replies to its commands must not reach the next call.
    inbox: Locked<mpsc::UnboundedSender<Input>>,
}

/// The input of the coordinator.
enum Input {
    Begin { key: Arc<str>, request: RoundOp, reply: oneshot::Sender<RoundOutcome> },
    Answer { node: usize, answer: MemberReply },
    Joined { node: usize, link: NewLink },
    Probed { node: usize, sent: Time, origin: Origin },
    Noted { node: usize, note: ServerNote, writing: Writing },
    Left { node: usize, cause: StoreError },
    Listens { node: usize, pushes: Notifications },
    Pushed { node: usize, push: Push },
}

impl QuorumBackend {
    /// `longest_ttl` is the longest known ttl of the leases of this deployment.
    ///
    /// # Errors
    ///
    /// A sentence that says what to change.
    pub(crate) fn new(
        mut configs: Vec<RedisConfig>,
        longest_ttl: Duration,
    ) -> Result<Arc<QuorumBackend>, String> {
        check(&configs)?;
        // The queue server of a key depends on the order, and other programs may name the servers in another one.
        configs.sort_by_cached_key(RedisConfig::at);
        let prefix = configs.first().map(|config| config.prefix.clone()).unwrap_or_default();
        let names = configs.iter().map(RedisConfig::at).collect();
        let nodes: Result<Vec<_>, String> =
            configs.into_iter().map(|config| RedisBackend::new(config.into_member())).collect();
        Ok(Arc::new(QuorumBackend {
            nodes: nodes?,
            names,
            prefix,
            longest_ttl,
            up: Arc::default(),
            inbox: Locked::new(mpsc::unbounded_channel().0),
        }))
    }

    /// The engine's tuning: a quorum makes no gaps, and every server has its own clock.
    pub(crate) fn tuning() -> Tuning {
        Tuning { poll_gap: Duration::ZERO, clocks: Clocks::Many, ..Tuning::default() }
    }

    fn not_up(&self) -> StoreError {
        for node in &self.nodes {
            node.connect();
        }
        StoreError::new(Failure::NotSent, format!("not connected to a majority of {}", self.names.join(", ")))
    }

    /// `result`: of the outcome of such a round.
    fn submit<T: 'static>(
        &self,
        key: Arc<str>,
        request: RoundOp,
        result: fn(RoundOutcome) -> Option<OpResult<T>>,
    ) -> BoxFuture<OpResult<T>> {
        let (reply, receiver) = oneshot::channel();
        let inbox = self.inbox.lock().clone();
        // If the coordinator has ended, the receiver of the reply notices it.
        drop(inbox.send(Input::Begin { key, request, reply }));
        Box::pin(async move {
            let outcome = with_contained_waker(receiver).await;
            outcome.ok().and_then(result).unwrap_or_else(|| Err(ended()))
        })
    }

    /// Executes an operation, if a majority is connected.
    fn send<T: 'static>(
        &self,
        key: &Arc<str>,
        request: RoundOp,
        result: fn(RoundOutcome) -> Option<OpResult<T>>,
    ) -> Sending<T> {
        if !self.up.load(Ordering::Acquire) {
            return Sending::Ready(Err(self.not_up()));
        }
        Sending::Pending(self.submit(key.clone(), request, result))
    }
}

fn check(configs: &[RedisConfig]) -> Result<(), String> {
    let count = configs.len();
    if count < 3 {
        return Err(format!(
            "a quorum of {count}: at least three servers are needed to survive the loss of one; \
             for a single server use its own URL"
        ));
    }
    if count.is_multiple_of(2) {
        return Err(format!(
            "a quorum of {count}: an even number of servers survives no more losses than {}: leave one out or \
             add one",
            count - 1
        ));
    }
    if count > Servers::MOST {
        return Err(format!("a quorum of {count}: more than {} servers are not supported", Servers::MOST));
    }
    for (at, config) in configs.iter().enumerate() {
        if !config.is_one_server() {
            return Err(format!(
                "{} cannot be one of a quorum: each must be a single independent server (`redis://…`)",
                config.at()
            ));
        }
        if configs.iter().take(at).any(|other| other.at() == config.at()) {
            return Err(format!("{} is named twice: a quorum needs different servers", config.at()));
        }
    }
    Ok(())
}

impl fmt::Debug for QuorumBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QuorumBackend").field(&self.describe()).finish()
    }
}

fn ended() -> StoreError {
    StoreError::new(Failure::Unknown, "the manager has ended")
}

impl Backend for QuorumBackend {
    fn send_acquire(&self, key: &Arc<str>, op: op::Ask) -> Sending<AcquireReply> {
        self.send(key, RoundOp::Ask(op), RoundOutcome::ask)
    }

    fn cannot_replace(&self) -> Option<String> {
        Some(
            "a quorum does not hand a lock over: its servers cannot replace the holder at the same moment"
                .to_owned(),
        )
    }

    fn send_release(&self, key: &Arc<str>, op: op::Release) -> Sending<ReleaseReply> {
        self.send(key, RoundOp::Release(op), RoundOutcome::release)
    }

    fn send_renew(&self, key: &Arc<str>, op: op::Renew) -> Sending<RenewReply> {
        self.send(key, RoundOp::Renew(op), RoundOutcome::renew)
    }

    fn send_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> Vec<BatchPart<RenewReply>> {
        let count = batch.len();
        if !self.up.load(Ordering::Acquire) {
            let error = self.not_up();
            return BatchPart::all(count, Box::pin(async move { fail_all(count, &error) }));
        }
        // Each in its own part, because a renewal that is not decided yet must not delay the others.
        let submit = |(place, (key, op))| {
            let result = self.submit(key, RoundOp::Renew(op), RoundOutcome::renew);
            BatchPart { places: vec![place], results: Box::pin(async move { vec![result.await] }) }
        };
        batch.into_iter().enumerate().map(submit).collect()
    }

    /// The holder is the token that a majority reports.
    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<StoredLock>, StoreError>> {
        let asked: Vec<_> = self.nodes.iter().map(|node| node.inspect(key)).collect();
        Box::pin(async move {
            let most = round::majority(asked.len());
            let found = of_a_majority(asked, most).await?;
            Ok(agreed(found.into_iter().flatten().collect(), most))
        })
    }

    fn others(&self) -> Others {
        Others::Listed
    }

    /// Any majority contains at least one server that knows a lock that a majority has.
    fn list(&self, beginning: &str, after: Option<Arc<str>>) -> BoxFuture<Result<ListPage, StoreError>> {
        let (nodes, mut found) = (self.nodes.clone(), ScanResult::new(Search::new(beginning, after)));
        let error = self.not_up();
        Box::pin(async move {
            let (mut searched, mut failed) = (Vec::new(), None);
            for node in &nodes {
                match node.search(&mut found).await {
                    Ok(()) => searched.push(node),
                    Err(error) => failed = Some(error),
                }
            }
            match searched.first() {
                Some(node) if searched.len() >= round::majority(nodes.len()) => Ok(node.page(found).await),
                _ => Err(failed.unwrap_or(error)),
            }
        })
    }

    fn inspect_all(&self, keys: Vec<Arc<str>>) -> BoxFuture<Result<StoredLocks, StoreError>> {
        let asked: Vec<_> = self.nodes.iter().map(|node| node.inspect_all(keys.clone())).collect();
        Box::pin(async move {
            let most = round::majority(asked.len());
            let mut told: HashMap<Arc<str>, Vec<StoredLock>> = HashMap::new();
            for (key, found) in of_a_majority(asked, most).await?.into_iter().flatten() {
                told.entry(key).or_default().push(found);
            }
            let agree = |key: Arc<str>| Some((key.clone(), agreed(told.remove(&key)?, most)?));
            Ok(keys.into_iter().filter_map(agree).collect())
        })
    }

    fn note_holds(&self, notes: &mut dyn Iterator<Item = HoldNote>) -> Option<BoxFuture<()>> {
        let notes: Vec<HoldNote> = notes.collect();
        let writing = self.nodes.iter().filter_map(|node| node.note_holds(&mut notes.iter().cloned()));
        let writing = writing.map(|noted| -> BoxFuture<Result<(), StoreError>> {
            Box::pin(async move {
                noted.await;
                Ok(())
            })
        });
        let writing = writing.collect();
        Some(Box::pin(async move { drop(gathered(writing).await) }))
    }

    fn publishes(&self) -> bool {
        true
    }

    /// A quorum tolerates that a server is missing, so this reports it as a finding and not as an error.
    fn diagnose(&self) -> BoxFuture<Result<Vec<Finding>, StoreError>> {
        let examined: Vec<_> = self.nodes.iter().map(|node| node.diagnose()).collect();
        let names = self.names.clone();
        Box::pin(async move {
            let mut found = Vec::new();
            for (name, examined) in names.into_iter().zip(examined) {
                match examined.await {
                    Ok(findings) => found.extend(findings),
                    Err(error) => {
                        let finding = Finding::new(Severity::Warning, name, error.to_string());
                        let remedy =
                            "bring the server back: until then, the quorum survives the loss of fewer others";
                        found.push(finding.remedy(remedy));
                    }
                }
            }
            Ok(found)
        })
    }

    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        if !self.up.load(Ordering::Acquire) {
            return Box::pin(ready(Err(self.not_up())));
        }
        let asked: Vec<_> = self.nodes.iter().map(|node| node.force_release(key)).collect();
        Box::pin(async move {
            let most = round::majority(asked.len());
            match released(asked).await {
                (found, Some(error)) if found.len() < most => Err(error),
                (found, _) => Ok(found.contains(&true)),
            }
        })
    }

    /// A holder holds the lock on a majority. The rest of a former holder on fewer servers is removed, too, but does
    /// not count as a lock.
    fn force_release_from(&self, key: &Arc<str>, owner: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        if !self.up.load(Ordering::Acquire) {
            return Box::pin(ready(Err(self.not_up())));
        }
        let asked: Vec<_> = self.nodes.iter().map(|node| node.force_release_from(key, owner)).collect();
        Box::pin(async move {
            let all = asked.len();
            let (found, error) = released(asked).await;
            let (most, held) = (round::majority(all), found.iter().filter(|held| **held).count());
            match error {
                // The missing replies would decide.
                Some(error) if held < most && held + (all - found.len()) >= most => Err(error),
                _ => Ok(held >= most),
            }
        })
    }

    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()> {
        Box::pin(async move {
            let (inbox, outbox) = mpsc::unbounded_channel();
            self.up.store(false, Ordering::Release);
            let former = std::mem::replace(&mut *self.inbox.lock(), inbox.clone());
            drop(former);
            // The tasks end when this future is dropped.
            let mut nodes = JoinSet::new();
            for (at, node) in self.nodes.iter().enumerate() {
                let (inbox, events, changes) = (inbox.clone(), Arc::clone(&events), Arc::default());
                let member_events = Arc::new(MemberEvents { at, node: node.clone(), inbox, events, changes });
                nodes.spawn(node.clone().run(member_events));
            }
            let coordinator = Coordinator::new(self.names.clone(), self.longest_ttl, fastrand::u64(..));
            let mut worker = Worker::new(&self, coordinator, events, inbox);
            tokio::select! {
                () = worker.work(outbox) => {}
                // The driver then begins anew. Otherwise, the server would never be connected again.
                Some(Err(ended)) = nodes.join_next() => {
                    if let Ok(panic) = ended.try_into_panic() {
                        resume_unwind(panic);
                    }
                }
            }
        })
    }

    fn check(&self, demand: &Demand) -> Result<(), LockError> {
        match demand.kind {
            LockKind::Exclusive => Ok(()),
            LockKind::Shared => Err(LockError::options(
                "shared locks are not offered on a quorum: readers and writers on different majorities would \
                 block each other forever; use an exclusive lock, or one Redis",
            )),
            LockKind::Limited { .. } => Err(LockError::options(
                "`max_holders` is not offered on a quorum: each server would count different holders, so no \
                 server could enforce the limit; use one Redis",
            )),
        }
    }

    fn keeps_between_sections(&self) -> Result<(), LockError> {
        Err(LockError::options(
            "`linger` is not offered on a quorum: a process that keeps a lock on several servers would not \
             learn in time that other processes want it; use one Redis",
        ))
    }

    fn describe(&self) -> String {
        format!("a quorum of {} redis servers at {}", self.names.len(), self.names.join(", "))
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }
}
