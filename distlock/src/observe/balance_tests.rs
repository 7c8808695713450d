//! The promises to observers, see [`Event`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::mpsc;

use super::recorder::{HoldEnd, LeaderSeen, Recorder, Seen};
use super::{Event, Observer, Observers};
use crate::lease_cell::How;
use crate::manager::LockManager;
use crate::simulation::wakes::Wakes;

const SHORT: Duration = Duration::from_millis(20);

fn observed() -> (LockManager, Arc<Recorder>) {
    let recorder = Recorder::new();
    (LockManager::in_memory_observed_by(recorder.clone()), recorder)
}

fn acquired(key: &str, how: How) -> Seen {
    Seen::Acquired { key: key.to_owned(), how }
}

fn released(key: &str, how: HoldEnd) -> Seen {
    Seen::Released { key: key.to_owned(), how }
}

fn lost(key: &str) -> Seen {
    Seen::Lost { key: key.to_owned() }
}

const REQUESTED: Seen = Seen::Requested { keys: 1 };

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_lock_that_is_released_is_requested_acquired_and_released_once() {
    let (manager, recorder) = observed();
    let guard = manager.lock("a").label("it").acquire().await.unwrap();
    guard.release().await.unwrap();
    let expected = [REQUESTED, acquired("a", How::Free), released("a", HoldEnd::Confirmed)];
    assert_eq!(recorder.under("it"), expected);
}

#[tokio::test]
async fn a_guard_that_is_dropped_is_reported_as_released() {
    let (manager, recorder) = observed();
    drop(manager.lock("a").label("it").acquire().await.unwrap());
    let expected = [REQUESTED, acquired("a", How::Free), released("a", HoldEnd::Dropped)];
    assert_eq!(recorder.under("it"), expected);
}

#[tokio::test]
async fn a_release_that_nobody_awaits_is_reported_once() {
    let (manager, recorder) = observed();
    let guard = manager.lock("a").label("it").acquire().await.unwrap();
    drop(guard.release());
    let expected = [REQUESTED, acquired("a", How::Free), released("a", HoldEnd::Dropped)];
    assert_eq!(recorder.under("it"), expected);
}

#[tokio::test]
async fn a_section_that_is_dropped_is_reported_as_released() {
    let (manager, recorder) = observed();
    let mut section = Box::pin(manager.lock("a").label("it").run(async |_| pending::<()>().await));
    assert!(poll_once(section.as_mut()).is_pending());
    drop(section);
    let expected = [REQUESTED, acquired("a", How::Free), released("a", HoldEnd::Dropped)];
    assert_eq!(recorder.under("it"), expected);
}

#[tokio::test]
async fn a_request_ends_once_however_it_ends() {
    let (manager, recorder) = observed();
    let guard = manager.lock("a").acquire().await.unwrap();
    manager.lock("a").label("busy").no_wait().acquire().await.unwrap_err();
    assert_eq!(recorder.under("busy"), [REQUESTED, Seen::NotAcquired]);
    manager.lock("").label("invalid").acquire().await.unwrap_err();
    assert_eq!(recorder.under("invalid"), [Seen::Requested { keys: 0 }, Seen::NotAcquired]);
    {
        let mut dropped = pin!(manager.lock("a").label("dropped").acquire());
        assert!(poll_once(dropped.as_mut()).is_pending());
    }
    assert_eq!(recorder.under("dropped"), [REQUESTED, Seen::Abandoned]);
    drop(manager.lock("a").label("never polled").acquire());
    assert_eq!(recorder.under("never polled"), []);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn each_of_several_keys_is_reported() {
    let (manager, recorder) = observed();
    let guard = manager.lock_all(["a", "b"]).label("it").acquire().await.unwrap();
    guard.release().await.unwrap();
    let expected = [
        Seen::Requested { keys: 2 },
        acquired("a", How::Free),
        acquired("b", How::Free),
        released("b", HoldEnd::Confirmed),
        released("a", HoldEnd::Confirmed),
    ];
    assert_eq!(recorder.under("it"), expected);
}

#[tokio::test]
async fn what_a_request_gives_back_because_it_did_not_get_the_rest_is_not_reported() {
    let (manager, recorder) = observed();
    let guard = manager.lock("b").acquire().await.unwrap();
    manager.lock_all(["a", "b"]).label("it").no_wait().acquire().await.unwrap_err();
    assert_eq!(recorder.under("it"), [Seen::Requested { keys: 2 }, Seen::NotAcquired]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_is_handed_on_here_is_reported_so_by_both() {
    let (manager, recorder) = observed();
    let first = manager.lock("a").label("first").acquire().await.unwrap();
    let mut waiting = pin!(manager.lock("a").label("second").acquire());
    assert!(poll_once(waiting.as_mut()).is_pending());
    first.release().await.unwrap();
    let second = waiting.await.unwrap();
    assert_eq!(recorder.under("first")[2], released("a", HoldEnd::HandedOn));
    assert_eq!(recorder.under("second"), [REQUESTED, acquired("a", How::HandedOn)]);
    second.release().await.unwrap();
    assert_eq!(recorder.under("second")[2..], [released("a", HoldEnd::Confirmed)]);
}

#[tokio::test]
async fn readers_that_share_a_lease_are_reported_each() {
    let (manager, recorder) = observed();
    let first = manager.lock("a").label("first").shared().acquire().await.unwrap();
    let second = manager.lock("a").label("second").shared().acquire().await.unwrap();
    first.release().await.unwrap();
    second.release().await.unwrap();
    let expected = [REQUESTED, acquired("a", How::Free), released("a", HoldEnd::HandedOn)];
    assert_eq!(recorder.under("first"), expected);
    let expected = [REQUESTED, acquired("a", How::Joined), released("a", HoldEnd::Confirmed)];
    assert_eq!(recorder.under("second"), expected);
}

#[tokio::test]
async fn a_lock_that_is_entered_again_is_reported_of_its_own() {
    let (manager, recorder) = observed();
    let outer = manager.lock("a").label("outer");
    let inner = manager.lock("a").label("inner").reentrant();
    outer
        .run(async |_| {
            inner.run(async |_| {}).await.unwrap();
        })
        .await
        .unwrap();
    let expected = [REQUESTED, acquired("a", How::Free), released("a", HoldEnd::Confirmed)];
    assert_eq!(recorder.under("outer"), expected);
    let expected = [REQUESTED, acquired("a", How::Nested), released("a", HoldEnd::Nested)];
    assert_eq!(recorder.under("inner"), expected);
}

/// The manager's thread may be about to report a loss, because it tells the holder first.
async fn until_reported(are_reported: impl Fn() -> bool) {
    let reported = async {
        while !are_reported() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reported).await.expect("every loss is reported");
}

#[tokio::test]
async fn a_loss_is_reported_once() {
    let (manager, recorder) = observed();
    let guard = manager.lock("a").label("told").ttl(SHORT).no_renew().acquire().await.unwrap();
    guard.lost().await;
    until_reported(|| recorder.losses() == 1).await;
    guard.release().await.unwrap_err();
    let expected = [REQUESTED, acquired("a", How::Free), lost("a"), released("a", HoldEnd::AfterLoss)];
    assert_eq!(recorder.under("told"), expected);

    let guard = manager.lock("a").label("found").ttl(SHORT).no_renew().acquire().await.unwrap();
    while guard.is_held() {
        std::hint::spin_loop();
    }
    drop(guard);
    let found = recorder.under("found");
    let losses = found.iter().filter(|seen| **seen == lost("a")).count();
    let releases = found.iter().filter(|seen| **seen == released("a", HoldEnd::AfterLoss)).count();
    assert_eq!((found.len(), losses, releases), (4, 1, 1), "{found:?}");
}

struct Panicking;

impl Observer for Panicking {
    fn event(&self, _: &Event<'_>) {
        panic!("the observer panics on purpose");
    }
}

#[test]
fn the_panic_of_an_observer_is_contained_and_the_others_are_told() {
    let recorder = Recorder::new();
    let observers = Observers::default().and(Arc::new(Panicking)).and(recorder.clone());
    observers.tell(&Event::Abandoned { label: &Cow::Borrowed("it"), keys: 1, waited: Duration::ZERO });
    assert_eq!(recorder.under("it"), [Seen::Abandoned]);
}

/// Sends, at each loss, how often the task that waits for it has been woken.
struct AtLoss(Wakes, mpsc::UnboundedSender<usize>);

impl Observer for AtLoss {
    fn event(&self, event: &Event<'_>) {
        if let Event::Lost { .. } = event {
            self.1.send(self.0.count()).unwrap();
        }
    }
}

/// An observer may be slow, and the body must not run on for that time.
#[tokio::test]
async fn a_body_is_told_of_a_loss_before_observers() {
    let (wakes, (sender, mut told)) = (Wakes::default(), mpsc::unbounded_channel());
    let waker = wakes.waker();
    let manager = LockManager::in_memory_observed_by(Arc::new(AtLoss(wakes, sender)));
    let guard = manager.lock("k").acquire().await.unwrap();
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(manager.force_release("k").await.unwrap());
    assert_eq!(told.recv().await, Some(1));
}

/// What happens to the connections of a manager is reported to the observers of this manager only.
#[cfg(feature = "redis")]
#[tokio::test]
async fn what_a_redis_store_notices_reaches_the_observers_of_its_manager() {
    use crate::backend::redis::{RedisBackend, RedisConfig};
    use crate::driver::Core;

    let start = |port: u16| {
        let (recorder, client) = (Recorder::new(), Arc::from("a"));
        let config = RedisConfig::new(&format!("redis://127.0.0.1:{port}/"), "a").unwrap();
        let tuning = config.tuning.clone();
        let observers = Observers::default().and(recorder.clone());
        let alive = Core::start(client, RedisBackend::new(config).unwrap(), &tuning, 0, observers);
        (alive, recorder)
    };
    // No server listens there.
    let managers = [1, 2].map(start);
    for (_, recorder) in &managers {
        let noticed = async || {
            while recorder.under("").is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), noticed()).await.expect("it is told");
        let refused = |seen: &Seen| matches!(seen, Seen::Noticed { text } if text.contains("refused"));
        assert!(recorder.under("").iter().all(refused), "{:?}", recorder.all());
    }
    // A thread of no manager's.
    std::thread::spawn(|| super::notice(super::Notice::OddPush)).join().unwrap();
    for (_, recorder) in &managers {
        let odd = |seen: &Seen| matches!(seen, Seen::Noticed { text } if text.contains("is not understood"));
        assert_eq!(recorder.count(odd), 0);
    }
}

fn steps(recorder: &Recorder) -> Vec<LeaderSeen> {
    let step = |seen| if let Seen::Leader(step) = seen { Some(step) } else { None };
    recorder.under("office").into_iter().filter_map(step).collect()
}

#[tokio::test]
async fn each_term_of_a_leader_begins_and_ends_once_however_it_ends() {
    let resigned = [LeaderSeen::Stands, LeaderSeen::TermBegins, LeaderSeen::Resigned];
    let (manager, recorder) = observed();
    manager.leader("office").run(async |_lead| {}).await.unwrap();
    assert_eq!(steps(&recorder), resigned);

    let (manager, recorder) = observed();
    let mut terms = 0;
    let body = |_lead| {
        terms += 1;
        let (term, manager) = (terms, manager.clone());
        async move {
            if term == 1 {
                manager.force_release("office").await.unwrap();
                pending::<()>().await;
            }
        }
    };
    manager.leader("office").run(body).await.unwrap();
    let [stands, begins, ends] = resigned;
    assert_eq!(steps(&recorder), [stands, begins, LeaderSeen::TermLost, begins, ends]);

    let (manager, recorder) = observed();
    let candidate = manager.leader("office");
    {
        let mut running = pin!(candidate.run(async |_lead| pending::<()>().await));
        poll_fn(|cx| {
            assert!(running.as_mut().poll(cx).is_pending());
            if candidate.is_leader() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    assert_eq!(steps(&recorder), resigned, "its future was dropped");
}

/// Many requests, of which some are dropped and some lose their locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_becomes_of_requests_and_locks_the_reports_balance() {
    let (manager, recorder) = observed();
    let mut tasks = Vec::new();
    for i in 0..300_u64 {
        let manager = manager.clone();
        tasks.push(tokio::spawn(one_of_many(manager, i, fastrand::Rng::with_seed(i))));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // One that surely loses its lock, however quickly the others were done.
    let request = manager.lock("a").label("300").ttl(SHORT).no_renew().wait_forever();
    let guard = request.acquire().await.unwrap();
    drop(guard.lost().await);
    drop(guard);
    until_reported(|| recorder.losses() >= recorder.releases_after_losses()).await;
    let mut stories: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for (label, seen) in recorder.all() {
        stories.entry(label).or_default().push(seen);
    }
    assert_eq!(stories.len(), 301);
    for (label, story) in &stories {
        check(label, story);
    }
    assert!(recorder.count(|seen| matches!(seen, Seen::Abandoned)) > 0);
    assert!(recorder.losses() > 0);
}

async fn one_of_many(manager: LockManager, i: u64, mut rng: fastrand::Rng) {
    let keys: Vec<&str> = ["a", "b", "c"].into_iter().filter(|_| rng.bool()).collect();
    let keys = if keys.is_empty() { vec!["a"] } else { keys };
    let request = manager.lock_all(keys).label(i.to_string()).ttl(SHORT).no_renew();
    let request = if rng.bool() { request.shared() } else { request };
    let request = request.wait(Duration::from_millis(rng.u64(0..200)));
    let work = async move {
        let Ok(guard) = request.acquire().await else { return };
        match rng.u32(0..5) {
            0 => drop(guard),
            1 => drop(guard.lost().await),
            2 => drop(poll_fn(|cx| Poll::Ready(pin!(guard.lost()).poll(cx))).await),
            _ => drop(guard.release().await),
        }
    };
    drop(tokio::time::timeout(Duration::from_millis(i % 50), work).await);
}

/// The reports of one request.
fn check(label: &str, story: &[Seen]) {
    let count = |kind: &dyn Fn(&Seen) -> bool| story.iter().filter(|seen| kind(seen)).count();
    let Some(Seen::Requested { keys }) = story.first().cloned() else { panic!("{label}: {story:?}") };
    assert_eq!(count(&|seen| matches!(seen, Seen::Requested { .. })), 1, "{label}: {story:?}");
    let without = count(&|seen| matches!(seen, Seen::NotAcquired | Seen::Abandoned));
    let with = count(&|seen| matches!(seen, Seen::Acquired { .. }));
    assert!(matches!((with, without), (0, 1)) || (with, without) == (keys, 0), "{label}: {story:?}");
    for key in ["a", "b", "c"] {
        let got = count(&|seen| matches!(seen, Seen::Acquired { key: of, .. } if of == key));
        let gone = count(&|seen| matches!(seen, Seen::Released { key: of, .. } if of == key));
        let lost = count(&|seen| matches!(seen, Seen::Lost { key: of } if of == key));
        let late = count(&|seen| *seen == released(key, HoldEnd::AfterLoss));
        assert_eq!(got, gone, "{label}: {story:?}");
        assert!(lost <= got && late <= lost, "{label}: {story:?}");
    }
}
