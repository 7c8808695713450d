//! One candidate leads at a time, and terms increase.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinHandle, JoinSet};

use crate::leader::{Candidate, Lead, Leadership};
use crate::testing::conformance::Place;
use crate::testing::{drop_after, eventually};
use crate::{FencingToken, LockError, LostReason};

/// Much longer than any test runs: no candidate leads because a lease has expired.
const LONG: Duration = Duration::from_secs(3_600);

/// The belief of a leader: both instants lie within its term.
#[derive(Debug)]
struct Belief {
    term: FencingToken,
    first: Instant,
    last: Instant,
}

async fn believe(lead: Lead, beliefs: &Mutex<Vec<Belief>>) {
    let first = Instant::now();
    let mut last = None;
    for _ in 0..10 {
        let now = Instant::now();
        if lead.is_leader() {
            last = Some(now);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    if let Some(last) = last {
        beliefs.lock().unwrap().push(Belief { term: lead.term(), first, last });
    }
}

pub async fn terms_increase_and_do_not_overlap(place: Place) {
    let beliefs = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let candidate = place.manager().await.leader("l");
        let beliefs = beliefs.clone();
        tasks.spawn(async move {
            for _ in 0..8 {
                candidate.run(async |lead| believe(lead, &beliefs).await).await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let mut beliefs = std::mem::take(&mut *beliefs.lock().unwrap());
    assert_eq!(beliefs.len(), 32);
    beliefs.sort_by_key(|belief| belief.first);
    for pair in beliefs.windows(2) {
        assert!(pair[0].last < pair[1].first && pair[0].term < pair[1].term, "{pair:?}");
    }
    place.is_clean("l").await;
}

/// A leader that leads until it is stopped, and says when a term begins.
pub(super) fn lead(candidate: &Candidate) -> (JoinHandle<Result<(), LockError>>, UnboundedReceiver<Lead>) {
    let (sender, terms) = unbounded_channel();
    let candidate = candidate.clone();
    let work = async move {
        candidate
            .run(async |lead| {
                drop(sender.send(lead));
                pending::<()>().await;
            })
            .await
    };
    (tokio::spawn(work), terms)
}

pub(super) async fn next(terms: &mut UnboundedReceiver<Lead>) -> Lead {
    let term = tokio::time::timeout(Duration::from_secs(30), terms.recv()).await;
    term.expect("a term begins in time").expect("it runs")
}

pub async fn a_leader_that_is_removed_stops_and_leads_again_in_a_later_term(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let candidate = one.leader("l").ttl(Duration::from_secs(5));
    let (work, mut terms) = lead(&candidate);
    let first = next(&mut terms).await;
    assert!(first.is_leader() && candidate.is_leader());
    assert_eq!(candidate.term(), Some(first.term()));
    assert!(other.force_release("l").await.unwrap());
    let second = next(&mut terms).await;
    assert!(!first.is_leader());
    assert!(second.term() > first.term() && candidate.term() == Some(second.term()));
    work.abort();
    place.is_clean("l").await;
    assert!(!candidate.is_leader() && !second.is_leader());
}

pub async fn a_leader_that_is_dropped_is_followed_at_once(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let (first, second) = (one.leader("l").ttl(LONG), other.leader("l").ttl(LONG));
    let (work, mut terms) = lead(&first);
    let former = next(&mut terms).await;
    let (next_work, mut next_terms) = lead(&second);
    work.abort();
    let later = next(&mut next_terms).await;
    assert!(later.term() > former.term());
    assert!(!former.is_leader() && !first.is_leader() && second.is_leader());
    next_work.abort();
    place.is_clean("l").await;
}

pub async fn a_leader_resigns_when_its_body_returns_or_panics(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let candidate = one.leader("l").ttl(LONG);
    let term = candidate.run(async |lead| lead.term()).await.unwrap();
    assert!(!candidate.is_leader());
    let panicking = {
        let candidate = candidate.clone();
        tokio::spawn(async move { candidate.run(|_| async { panic!("a body that panics") }).await })
    };
    assert!(panicking.await.unwrap_err().is_panic(), "the panic continues");
    assert!(!candidate.is_leader() && candidate.term().is_none());
    let next = other.leader("l").run(async |lead| lead.term()).await.unwrap();
    assert!(next > term);
    place.is_clean("l").await;
}

pub async fn a_shutdown_ends_candidacies_and_the_next_one_leads(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let (leading, waiting) = (one.leader("l").ttl(LONG), one.leader("l").ttl(LONG));
    let (work, mut terms) = lead(&leading);
    let term = next(&mut terms).await;
    let (waiter, _none) = lead(&waiting);
    place.until_waiting(&one, &one, "l", 1).await;
    let (patient, mut later) = lead(&other.leader("l").ttl(LONG));
    one.shutdown(Duration::ZERO).await;
    assert!(matches!(waiter.await.unwrap(), Err(LockError::Closed)));
    let stopped = work.await.unwrap();
    let is_stopped = matches!(&stopped, Err(LockError::Lost { reason: LostReason::Shutdown, .. }));
    assert!(is_stopped, "{stopped:?}");
    assert!(!term.is_leader() && !leading.is_leader());
    term.closing().await;
    if place.is_one_process() {
        assert!(matches!(patient.await.unwrap(), Err(LockError::Closed)));
    } else {
        assert!(next(&mut later).await.term() > term.term());
        patient.abort();
    }
    place.is_clean("l").await;
}

/// A leader that notices the shutdown in time does not delay it.
pub async fn a_leader_that_watches_for_the_shutdown_ends_before_its_grace(place: Place) {
    let manager = place.manager().await;
    let candidate = manager.leader("l").ttl(LONG);
    let (sender, mut terms) = unbounded_channel();
    let work = tokio::spawn(async move {
        candidate
            .run(async |lead| {
                drop(sender.send(lead.clone()));
                lead.closing().await;
                lead.check()
            })
            .await
    });
    next(&mut terms).await;
    let report =
        tokio::time::timeout(Duration::from_secs(60), manager.shutdown(LONG)).await.expect("it ends");
    // The lock of the office, and on most stores that of the term.
    assert!(report.held > 0 && report.lost == 0, "{report:?}");
    work.await.unwrap().unwrap().expect("it led until it had finished");
    place.is_clean("l").await;
}

pub async fn a_watch_shows_who_leads(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let (here, elsewhere) = (one.leader("l").ttl(LONG), other.leader("l").ttl(LONG));
    let mut watch = here.watch();
    assert_eq!(watch.changed().await, Leadership::Vacant);
    let (work, mut terms) = lead(&here);
    let term = next(&mut terms).await.term();
    assert!(matches!(watch.changed().await, Leadership::Here { term: found, .. } if found == term));
    let mut from_outside = elsewhere.watch();
    let Leadership::Elsewhere { owner, client, .. } = from_outside.changed().await else {
        panic!("it leads")
    };
    let client = client.expect("one of this library");
    assert!(owner.starts_with(&format!("dl1:{}:", client.id)), "{owner}, {client:?}");
    assert!(client.pid.is_none_or(|pid| pid == std::process::id()), "{client:?}");
    work.abort();
    assert_eq!(watch.changed().await, Leadership::Vacant);
    let after = match from_outside.changed().await {
        // Its process is known by now.
        Leadership::Elsewhere { owner: same, client: Some(client), .. } => {
            assert!(same == owner && client.pid == Some(std::process::id()), "{same}, {client:?}");
            from_outside.changed().await
        }
        other => other,
    };
    assert_eq!(after, Leadership::Vacant);
    let (work, mut terms) = lead(&elsewhere);
    next(&mut terms).await;
    let Leadership::Elsewhere { owner: later, .. } = watch.changed().await else { panic!("the other leads") };
    assert_ne!(owner, later);
    work.abort();
}

/// Nothing of a candidate stays, in whatever state it is dropped.
pub async fn a_candidacy_may_be_dropped_anywhere(place: Place) {
    let manager = place.manager().await;
    for polls in 0..40 {
        let candidate = manager.leader("l").ttl(LONG);
        drop_after(polls, candidate.run(async |_| tokio::task::yield_now().await)).await;
        assert!(!candidate.is_leader());
    }
    place.is_clean("l").await;
}

pub async fn an_office_without_a_valid_name_or_lease_is_refused(place: Place) {
    let manager = place.manager().await;
    let error = manager.leader("").run(async |_| ()).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
    let error = manager.leader("l").ttl(Duration::ZERO).run(async |_| ()).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    let nested =
        manager.leader("l").run(async |_| manager.leader("l").run(async |_| ()).await).await.unwrap();
    assert!(matches!(nested, Err(LockError::WouldDeadlock { .. })), "{nested:?}");
}

/// Without a link a leader knows when its term is over, and leads again when there is one.
pub async fn without_a_link_the_term_ends_and_another_begins_when_it_is_mended(place: Place) {
    let candidate = place.manager().await.leader("l").ttl(Duration::from_secs(1));
    let (work, mut terms) = lead(&candidate);
    let first = next(&mut terms).await;
    place.cut().await;
    eventually("the term is over", async || !candidate.is_leader()).await;
    assert!(!first.is_leader());
    place.mend().await;
    let second = next(&mut terms).await;
    assert!(second.term() > first.term());
    // On a busy machine, a term may be over already, and another one follows.
    eventually("it leads", async || candidate.is_leader()).await;
    work.abort();
    place.is_clean("l").await;
}
