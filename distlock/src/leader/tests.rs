//! The pause between two campaigns, and the health of a leader, on a clock that the test pauses.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::state::Reign;
use super::{Lead, LeaderWatch, Leadership};
use crate::LockManager;
use crate::backend::{EarlierCommands, Events, Failure, LinkEvent, Notifications, StoreError};
use crate::fault::Fault;
use crate::guard::Guard;
use crate::release::Release;
use crate::section::Holding;
use crate::testing::{TestStore, fail_next, planned};
use distlock_store::FencingToken;

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
    let lead = Lead::new(holding.handle().clone(), term, manager.core().closing());
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
            tokio::spawn(async move { candidate.run(async |_| std::future::pending::<()>().await).await })
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
        let leads =
            tokio::spawn(async move { second.run(async |_| std::future::pending::<()>().await).await });
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
