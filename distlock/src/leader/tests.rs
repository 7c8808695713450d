//! The pause between two campaigns, and the health of a leader, on a clock that the test pauses.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep};

use super::state::Reign;
use super::{Lead, LeaderWatch, Leadership};
use crate::backend::{EarlierCommands, Events, Failure, LinkEvent, Notifications, StoreError};
use crate::fault::Fault;
use crate::guard::Guard;
use crate::observe::LockEvent;
use crate::release::Release;
use crate::section::Holding;
use crate::testing::{BOUND, TestStore, eventually, fail_next, lose, planned};
use crate::{LockError, LockKind, LockManager};
use distlock_store::kit::sync::Locked;
use distlock_store::{
    Abilities, Acquire, AcquireReply, Busy, Fencing, FencingToken, LockStore, Owner, Publish, ReleaseReply,
    Renew, RenewReply, StoredLock,
};

const OFFICE: &str = "office";

/// After this number of failures, the next pause is one of the longest.
const FAILURES: usize = 10;

fn down() -> LinkEvent {
    LinkEvent::Down { cause: StoreError::new(Failure::NotSent, "connection refused") }
}

const UP: LinkEvent = LinkEvent::Up { earlier: EarlierCommands::Ended, pushes: Notifications::On };

#[tokio::test(start_paused = true)]
async fn a_pause_ends_when_the_connection_is_up_again() {
    let store = TestStore::on_paused_time();
    let manager = store.process();
    for _ in 0..FAILURES {
        fail_next(&manager, OFFICE, Fault::Unavailable);
    }
    let candidate = manager.leader(OFFICE);
    let leads = tokio::spawn(async move { candidate.run(async |_| Instant::now()).await });
    while planned(&manager) > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    // A connection that is lost ends no pause.
    manager.core().link(down());
    sleep(Duration::from_millis(100)).await;
    assert!(!leads.is_finished());
    let up = Instant::now();
    manager.core().link(UP);
    let led = leads.await.unwrap().unwrap();
    assert!(led - up < Duration::from_millis(100), "{:?}", led - up);
}

/// An outage that the campaign has met itself is not reported to it again: the pause has its usual length.
#[tokio::test(start_paused = true)]
async fn a_pause_is_kept_while_the_connection_stays_as_it_is() {
    let store = TestStore::on_paused_time();
    let manager = store.process();
    for _ in 0..FAILURES {
        fail_next(&manager, OFFICE, Fault::Unavailable);
    }
    let begun = Instant::now();
    manager.leader(OFFICE).run(async |_| ()).await.unwrap();
    assert!(begun.elapsed() > Duration::from_secs(8), "{:?}", begun.elapsed());
}

/// A body that does not await runs on after its term. That is tolerated for a while, from the first check on.
#[tokio::test(start_paused = true)]
async fn a_body_that_runs_on_after_its_term_is_unhealthy_after_the_tolerance() {
    const TOLERANCE: Duration = Duration::from_secs(5);
    let store = TestStore::on_paused_time();
    let (manager, other) = (store.process(), store.process());
    let candidate = manager.leader(OFFICE);
    let (_holding, lead) = elected(&manager, candidate.campaign().await.unwrap());
    let reign = Reign::begin(&candidate.state, lead.clone());
    candidate.health(Duration::ZERO).unwrap();
    assert!(other.force_release(OFFICE).await.unwrap());
    assert!(lead.lost().await.is_lost());
    candidate.health(TOLERANCE).unwrap();
    sleep(TOLERANCE / 2).await;
    candidate.health(TOLERANCE).unwrap();
    sleep(TOLERANCE / 2).await;
    assert!(candidate.health(TOLERANCE).unwrap_err().is_lost());
    drop(reign);
    candidate.health(Duration::ZERO).unwrap();
}

/// Its candidate cannot stop it, and it may write, although the same candidate leads again.
#[tokio::test(start_paused = true)]
async fn a_body_that_runs_on_is_unhealthy_although_a_clone_leads_again() {
    const TOLERANCE: Duration = Duration::from_secs(5);
    let store = TestStore::on_paused_time();
    let (manager, other) = (store.process(), store.process());
    let candidate = manager.leader(OFFICE);
    let (_holding, lead) = elected(&manager, candidate.campaign().await.unwrap());
    let first = Reign::begin(&candidate.state, lead.clone());
    assert!(other.force_release(OFFICE).await.unwrap());
    assert!(lead.lost().await.is_lost());
    let (_next, lead) = elected(&manager, candidate.campaign().await.unwrap());
    let second = Reign::begin(&candidate.state, lead);
    candidate.health(TOLERANCE).unwrap();
    sleep(TOLERANCE).await;
    assert!(candidate.health(TOLERANCE).unwrap_err().is_lost());
    assert!(candidate.is_leader());
    drop(first);
    candidate.health(Duration::ZERO).unwrap();
    drop(second);
}

/// Between the release and the end of the term, the body has returned, so the leader is healthy.
#[tokio::test(start_paused = true)]
async fn a_leader_that_resigns_is_healthy_until_the_reply_to_its_release() {
    let store = TestStore::on_paused_time();
    let manager = store.process();
    let candidate = manager.leader(OFFICE);
    let (holding, lead) = elected(&manager, candidate.campaign().await.unwrap());
    let reign = Reign::begin(&candidate.state, lead.clone());
    holding.handle().release_and_report().await;
    assert!(lead.check().unwrap_err().is_lost());
    candidate.health(Duration::ZERO).unwrap();
    drop(reign);
}

/// Two tasks run the same candidate. The first one loses its term before its body begins, and continues when the second
/// one leads.
#[tokio::test(start_paused = true)]
async fn a_term_that_ended_before_its_body_began_does_not_hide_the_next_term() {
    let store = TestStore::on_paused_time();
    let (manager, other) = (store.process(), store.process());
    let candidate = manager.leader(OFFICE);
    let (_first, over) = elected(&manager, candidate.campaign().await.unwrap());
    assert!(other.force_release(OFFICE).await.unwrap());
    assert!(over.lost().await.is_lost());
    let (_second, lead) = elected(&manager, candidate.campaign().await.unwrap());
    let term = lead.term();
    let second = Reign::begin(&candidate.state, lead);
    let first = Reign::begin(&candidate.state, over);
    assert_eq!(candidate.term(), Some(term));
    drop(first);
    assert_eq!(candidate.term(), Some(term));
    drop(second);
    assert!(!candidate.is_leader());
}

/// A lead whose body has not begun.
fn elected(manager: &LockManager, (guard, term): (Guard, FencingToken)) -> (Holding, Lead) {
    let holding = Holding::new(guard, Release::Confirmed);
    let lead = Lead::new(holding.handle().clone(), term, manager.core().clone());
    (holding, lead)
}

/// The clock only moves when no task can run, so it shows which task polls: the former leader leads for longer than a
/// watch sleeps, and the next one is seen as soon as it leads.
#[tokio::test(start_paused = true)]
async fn who_watches_is_notified_of_the_next_leader() {
    for values in [["one", "two"].map(Some), [None, None]] {
        let store = TestStore::on_paused_time();
        let (watcher, first, second) = (store.process(), store.process(), store.process());
        let mut watch = watcher.leader(OFFICE).watch();
        let lead = |manager: &LockManager, value: Option<&str>| {
            let candidate = manager.leader(OFFICE);
            let candidate = match value {
                Some(value) => candidate.value(value),
                None => candidate,
            };
            tokio::spawn(async move { candidate.run(async |_| pending::<()>().await).await })
        };
        let former = lead(&first, values[0]);
        until_seen(&mut watch, values[0], 1).await;
        let latter = lead(&second, values[1]);
        while watcher.inspect(OFFICE).await.unwrap().unwrap().waiters == 0 {
            tokio::task::yield_now().await;
        }
        assert!(tokio::time::timeout(Duration::from_secs(100), watch.changed()).await.is_err());
        let ended = Instant::now();
        tokio::join!(until_seen(&mut watch, values[1], 2), async { former.abort() });
        assert!(ended.elapsed() < Duration::from_millis(500), "{values:?}: {:?}", ended.elapsed());
        latter.abort();
    }
}

async fn until_seen(watch: &mut LeaderWatch, wanted: Option<&str>, terms: u64) {
    loop {
        match watch.changed().await {
            Leadership::Elsewhere { value, .. } if value.as_deref() == wanted => break,
            _ => {}
        }
    }
    assert_eq!(watch.transitions(), terms);
}

/// The first candidate resigns a moment after it was elected, when another candidate of its process waits. That one
/// then has a term, and an owner token, of its own.
#[tokio::test(start_paused = true)]
async fn a_watch_sees_the_term_of_another_candidate_of_its_process() {
    let store = TestStore::on_paused_time();
    let manager = store.process();
    let (first, second) = (manager.leader(OFFICE), manager.leader(OFFICE));
    let body = async |lead: Lead| {
        let mut watch = first.watch();
        assert_eq!(watch.changed().await, Leadership::Here { term: lead.term() });
        let second = second.clone();
        let leads = tokio::spawn(async move { second.run(async |_| pending::<()>().await).await });
        while manager.inspect(OFFICE).await.unwrap().unwrap().waiters_here == 0 {
            tokio::task::yield_now().await;
        }
        (watch, leads, lead.owner())
    };
    let (mut watch, leads, former) = first.run(body).await.unwrap();
    let elsewhere = async {
        loop {
            if let Leadership::Elsewhere { owner, .. } = watch.changed().await {
                return owner;
            }
        }
    };
    let owner = tokio::time::timeout(Duration::from_secs(5), elsewhere).await.unwrap();
    assert_ne!(owner, former);
    leads.abort();
}

/// The time in a campaign is not part of the term.
#[tokio::test(start_paused = true)]
async fn a_short_term_after_a_long_campaign_does_not_shorten_the_next_pause() {
    let store = TestStore::on_paused_time();
    let manager = store.process();
    for _ in 0..FAILURES {
        fail_next(&manager, OFFICE, Fault::Unavailable);
    }
    let former = store.process().lock(OFFICE).acquire().await.unwrap();
    let (begins, mut begun) = mpsc::unbounded_channel();
    let candidate = manager.leader(OFFICE);
    let leads = tokio::spawn(async move {
        let body = async |_| {
            begins.send(Instant::now()).unwrap();
            pending::<()>().await;
        };
        candidate.run(body).await
    });
    while planned(&manager) > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_secs(60)).await;
    former.release().await.unwrap();
    let first = begun.recv().await.unwrap();
    assert!(lose(&manager, OFFICE));
    let pause = begun.recv().await.unwrap() - first;
    assert!(pause > Duration::from_secs(1), "{pause:?}");
    leads.abort();
}

/// A watcher and a candidate wait for as long as another candidate leads.
#[tokio::test]
async fn who_waits_for_the_end_of_a_term_is_not_warned_of() {
    let limit = Duration::from_millis(10);
    let manager = LockManager::builder().warn_wait(limit).in_memory().unwrap();
    let mut events = manager.events();
    let leader = manager.leader(OFFICE);
    let leads = tokio::spawn(async move { leader.run(async |_| pending::<()>().await).await });
    let mut watch = manager.leader(OFFICE).watch();
    let owner = loop {
        if let Leadership::Elsewhere { owner, .. } = watch.changed().await {
            break owner;
        }
    };
    let watches = tokio::spawn(async move { watch.changed().await });
    let candidate = manager.leader(OFFICE);
    let campaigns = tokio::spawn(async move { candidate.run(async |_| ()).await });
    for key in [format!("{OFFICE}:{owner}"), OFFICE.to_owned()] {
        let waits = async || manager.inspect(&key).await.unwrap().is_some_and(|lock| lock.waiters_here == 1);
        eventually("it waits", waits).await;
    }
    let _held = manager.lock("k").acquire().await.unwrap();
    // It begins to wait later. When it is warned of again, the others would have been warned of before.
    let later = tokio::spawn(manager.lock("k").label("later").acquire());
    let mut warned = Vec::new();
    while warned.iter().filter(|label| *label == "later").count() < 2 {
        if let Some(LockEvent::LongWait { label, .. }) = events.next().await {
            warned.push(label.to_string());
        }
    }
    assert_eq!(warned, ["later", "later"]);
    for task in [leads.abort_handle(), watches.abort_handle(), campaigns.abort_handle(), later.abort_handle()]
    {
        task.abort();
    }
}

/// A store of exclusive locks that does not keep the values of leaders.
#[derive(Debug)]
struct Forgetful {
    holders: Locked<HashMap<Arc<str>, Owner>>,
    /// A request to publish a value gets the error, or no reply.
    error: Option<StoreError>,
    /// The requests to publish a value.
    asked: Arc<Semaphore>,
}

impl Forgetful {
    fn manager(error: Option<StoreError>) -> Result<(LockManager, Arc<Semaphore>), LockError> {
        let asked = Arc::new(Semaphore::new(0));
        let store = Forgetful { holders: Locked::default(), error, asked: asked.clone() };
        Ok((LockManager::builder().store(store).connect_lazy()?, asked))
    }
}

impl LockStore for Forgetful {
    fn abilities(&self) -> Abilities {
        Abilities::default().fencing(Fencing::OneByOne).publishes()
    }

    fn describe(&self) -> String {
        "a forgetful store".to_owned()
    }

    async fn acquire(&self, Acquire { key, owner, .. }: &Acquire) -> Result<AcquireReply, StoreError> {
        let mut holders = self.holders.lock();
        let holder = holders.entry(key.clone()).or_insert_with(|| owner.clone());
        Ok(if holder == owner {
            AcquireReply::Acquired { fence: Some(1) }
        } else {
            AcquireReply::Busy(Busy::ours(holder.as_str()))
        })
    }

    async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> {
        Ok(RenewReply::Renewed)
    }

    async fn release(
        &self,
        distlock_store::Release { key, .. }: &distlock_store::Release,
    ) -> Result<ReleaseReply, StoreError> {
        self.holders.lock().remove(key);
        Ok(ReleaseReply::Released)
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let holder = self.holders.lock().get(key).cloned();
        Ok(holder.map(|holder| StoredLock::new(LockKind::Exclusive).holder(holder.as_str(), None)))
    }

    async fn publish(&self, _: &Publish) -> Result<(), StoreError> {
        self.asked.add_permits(1);
        match &self.error {
            Some(error) => Err(error.clone()),
            None => pending().await,
        }
    }

    async fn force_release(&self, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Otherwise, it would be elected again and again, and no other candidate could lead.
#[tokio::test]
async fn a_leader_whose_value_is_refused_does_not_campaign_again() {
    let (manager, _) = Forgetful::manager(Some(StoreError::refused("no column for it"))).unwrap();
    let candidate = manager.leader(OFFICE).value("10.0.0.7");
    let run = candidate.run(async |_| unreachable!("no term begins"));
    let error = tokio::time::timeout(BOUND, run).await.expect("it ends").unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error}");
    assert!(error.to_string().contains("no column for it"), "{error}");
}

#[tokio::test]
async fn a_candidate_that_is_elected_is_not_another_leader_before_its_term_begins() {
    let (manager, asked) = Forgetful::manager(None).unwrap();
    let candidate = manager.leader(OFFICE).value("10.0.0.7");
    let mut watch = candidate.watch();
    let leads = tokio::spawn(async move { candidate.run(async |_| ()).await });
    drop(asked.acquire().await.unwrap());
    assert!(manager.inspect(OFFICE).await.unwrap().is_some());
    assert_eq!(watch.changed().await, Leadership::Vacant);
    leads.abort();
}
