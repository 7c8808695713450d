//! Holders that wait for each other are seen, and those that only wait are not.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Barrier, Notify};
use tokio::task::JoinHandle;

use crate::deadlock::{Deadlock, Records};
use crate::testing::conformance::Place;
use crate::testing::{BOUND, eventually};
use crate::{Events, LockError, LockEvent, LockManager};

/// Much longer than any test runs: no lease and no wait ends.
const LONG: Duration = Duration::from_secs(3_600);

type Section = JoinHandle<Result<(), LockError>>;

/// Holds one key, and inside requests another one when `ready` says so. Holds both until `done` says so.
fn nested<F>(manager: &LockManager, held: &str, wanted: &str, ready: F, done: &Arc<Notify>) -> Section
where
    F: Future<Output = ()> + Send + 'static,
{
    let (manager, done) = (manager.clone(), done.clone());
    let (held, wanted) = (held.to_owned(), wanted.to_owned());
    tokio::spawn(async move {
        let section = manager.lock(held).ttl(LONG).run(async |_| {
            ready.await;
            let inner = manager.lock(wanted).ttl(LONG).wait(LONG);
            inner.run(async |_| done.notified().await).await
        });
        section.await?
    })
}

/// Each holds its key and requests that of the next one.
fn ring(managers: &[LockManager], keys: &[&str]) -> (Vec<Section>, Arc<Notify>) {
    let (barrier, done) = (Arc::new(Barrier::new(keys.len())), Arc::new(Notify::new()));
    // A section that gets both locks ends at once.
    done.notify_one();
    let next = keys.iter().cycle().skip(1);
    let sections = managers.iter().zip(keys.iter().zip(next)).map(|(manager, (held, wanted))| {
        let barrier = barrier.clone();
        let ready = async move {
            barrier.wait().await;
        };
        nested(manager, held, wanted, ready, &done)
    });
    (sections.collect(), done)
}

async fn next_deadlock(events: &mut Events) -> Deadlock {
    let follow = async {
        loop {
            if let LockEvent::Deadlock { deadlock } = events.next().await.expect("the manager lives") {
                return deadlock;
            }
        }
    };
    tokio::time::timeout(BOUND, follow).await.expect("it is seen in time")
}

/// Pairs of a key that is held and a key that is wanted.
fn edges(deadlock: &Deadlock) -> Vec<(&str, &str)> {
    let mut edges: Vec<(&str, &str)> =
        deadlock.members().iter().map(|member| (&*member.held, &*member.wanted)).collect();
    edges.sort_unstable();
    edges
}

async fn all_end(place: &Place, sections: Vec<Section>, keys: &[&str]) {
    for section in sections {
        section.abort();
        drop(section.await);
    }
    for key in keys {
        place.is_clean(key).await;
    }
}

async fn a_ring_is_seen(place: Place, keys: &[&str], expected: &[(&str, &str)]) {
    let mut managers = Vec::new();
    for _ in keys {
        managers.push(place.manager().await);
    }
    let mut events: Vec<Events> = managers.iter().map(LockManager::events).collect();
    let (sections, _done) = ring(&managers, keys);
    for events in &mut events {
        let deadlock = next_deadlock(events).await;
        assert_eq!(edges(&deadlock), expected);
        for member in deadlock.members() {
            let holder = managers[0].inspect(&*member.held).await.unwrap().expect("it is held").holder;
            assert_eq!(member.owner, holder);
        }
    }
    all_end(&place, sections, keys).await;
}

pub async fn two_that_wait_for_each_other_are_seen_by_both(place: Place) {
    a_ring_is_seen(place, &["a", "b"], &[("a", "b"), ("b", "a")]).await;
}

pub async fn three_that_wait_in_a_circle_are_seen_by_all(place: Place) {
    a_ring_is_seen(place, &["a", "b", "c"], &[("a", "b"), ("b", "c"), ("c", "a")]).await;
}

/// `c` is held for long. `a` waits for it, and `b` for `a`.
pub async fn who_waits_for_a_slow_holder_is_in_no_deadlock_and_its_record_ends_with_the_wait(place: Place) {
    let (slow, first, second) = (place.manager().await, place.manager().await, place.manager().await);
    let mut events = second.events();
    let guard = slow.lock("c").ttl(LONG).acquire().await.unwrap();
    let done = Arc::new(Notify::new());
    let waits = |held: &'static str, wanted: &'static str, manager: &LockManager| {
        nested(manager, held, wanted, std::future::ready(()), &done)
    };
    let one = waits("a", "c", &first);
    let observer = place.manager().await;
    eventually("it holds a", async || observer.inspect("a").await.unwrap().is_some()).await;
    let other = waits("b", "a", &second);
    let beat = async |key: &str| {
        let holder = observer.core().holder(&Arc::from(key)).await.ok()??;
        holder.waits.first().map(|wait| wait.beat)
    };
    // Each has looked at least three times.
    for key in ["a", "b"] {
        let (mut last, mut beats) = (None, 0);
        eventually("it looks", async || {
            let seen = beat(key).await;
            if seen.is_some() && seen != last {
                (last, beats) = (seen, beats + 1);
            }
            beats == 3
        })
        .await;
    }
    guard.release().await.unwrap();
    eventually("no request waits inside a", async || beat("a").await.is_none()).await;
    done.notify_one();
    done.notify_one();
    eventually("no request waits inside b", async || beat("b").await.is_none()).await;
    done.notify_one();
    for section in [one, other] {
        section.await.unwrap().unwrap();
    }
    loop {
        match events.next().await.expect("the manager lives") {
            LockEvent::Deadlock { deadlock } => panic!("a false alarm: {deadlock}"),
            LockEvent::Released { key, .. } if key == "b" => break,
            _ => {}
        }
    }
    for key in ["a", "b", "c"] {
        place.is_clean(key).await;
    }
}

/// A request that is polled first inside `b`, inside `a`, and then waits on in `a` alone.
pub async fn a_request_that_leaves_the_section_around_it_is_recorded_there_no_longer(place: Place) {
    let (slow, one, observer) = (place.manager().await, place.manager().await, place.manager().await);
    let busy = slow.lock("c").ttl(LONG).acquire().await.unwrap();
    let is_recorded = async |key: &str| {
        let holder = observer.core().holder(&Arc::from(key)).await.ok().flatten();
        holder.is_some_and(|holder| !holder.waits.is_empty())
    };
    let outer = one.lock("a").ttl(LONG).run(async |_| {
        let mut waiting = Box::pin(one.lock("c").ttl(LONG).wait(LONG).acquire());
        let inner = one.lock("b").ttl(LONG).run(async |_| {
            tokio::select! {
                _ = &mut waiting => panic!("`c` is held"),
                _ = eventually("it is recorded", async || is_recorded("a").await && is_recorded("b").await) => {}
            }
        });
        inner.await.unwrap();
        tokio::select! {
            _ = &mut waiting => panic!("`c` is held"),
            _ = eventually("it is no longer recorded", async || !is_recorded("a").await) => {}
        }
        busy.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
    });
    outer.await.unwrap();
    for key in ["a", "b", "c"] {
        place.is_clean(key).await;
    }
}

/// A manager as another process has it, which ends the youngest request.
async fn breaking(place: &Place) -> LockManager {
    place.builder().break_deadlocks(true).connect().await.unwrap()
}

pub async fn the_youngest_request_ends_and_the_other_one_gets_its_lock(place: Place) {
    let first = breaking(&place).await;
    let second = if place.is_one_process() { first.clone() } else { breaking(&place).await };
    let (done, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let both_hold = Arc::new(Barrier::new(2));
    let barrier = both_hold.clone();
    let holds = async move {
        barrier.wait().await;
    };
    let older = nested(&first, "a", "b", holds, &done);
    let told = go.clone();
    let younger = nested(
        &second,
        "b",
        "a",
        async move {
            both_hold.wait().await;
            told.notified().await;
        },
        &done,
    );
    eventually("b is held", async || second.inspect("b").await.unwrap().is_some()).await;
    place.until_waiting(&second, &first, "b", 1).await;
    go.notify_one();
    done.notify_one();
    let ended = tokio::time::timeout(BOUND, younger).await.expect("in time").unwrap();
    match ended {
        Err(LockError::WouldDeadlock { key, deadlock: Some(deadlock), .. }) => {
            assert_eq!((key.as_str(), edges(&deadlock)), ("a", vec![("a", "b"), ("b", "a")]));
        }
        other => panic!("{other:?}"),
    }
    tokio::time::timeout(BOUND, older).await.expect("in time").unwrap().unwrap();
    all_end(&place, Vec::new(), &["a", "b"]).await;
}

/// A deadlock that [`LockManager::deadlocks`] lists exists, and it is gone when one of its members is gone.
pub async fn a_manager_lists_the_deadlocks_of_others(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let observer = if place.is_one_process() { one.clone() } else { place.manager().await };
    assert_eq!(observer.deadlocks().await.unwrap(), []);
    let (mut sections, _done) = ring(&[one, other], &["a", "b"]);
    eventually("it is listed", async || {
        let listed = observer.deadlocks().await.unwrap();
        listed.iter().any(|deadlock| edges(deadlock) == [("a", "b"), ("b", "a")])
    })
    .await;
    let member = sections.remove(0);
    member.abort();
    drop(member.await);
    eventually("it is gone", async || observer.deadlocks().await.unwrap().is_empty()).await;
    all_end(&place, sections, &["a", "b"]).await;
}
