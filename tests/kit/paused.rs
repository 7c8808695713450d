//! Leases and waits on a clock that the test pauses.

use std::time::Duration;

use distlock::testing::{Sections, TestStore};
use distlock::{LockError, LockManager, LostReason, Retry};
use tokio::time::{Instant, advance, timeout};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_clock_says_so_and_renewal_goes_on() {
    let store = TestStore::on_paused_time();
    let (one, other) = (store.process(), store.process());
    let guard = one.lock("k").ttl(Duration::from_secs(10)).acquire().await.unwrap();
    let (begin, real) = (Instant::now(), std::time::Instant::now());
    let error = other.lock("k").wait(HOUR).acquire().await.unwrap_err();
    let LockError::Busy { waited, .. } = error else { panic!("{error}") };
    assert!(waited >= HOUR && waited < HOUR + Duration::from_secs(2), "{waited:?}");
    assert!(begin.elapsed() >= HOUR && real.elapsed() < HOUR / 10);
    assert!(guard.is_held(), "it was renewed all the time");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_around_a_wait_fires_at_its_time() {
    let store = TestStore::on_paused_time();
    let (one, other) = (store.process(), store.process());
    let _guard = one.lock("k").acquire().await.unwrap();
    let begin = Instant::now();
    let short = timeout(Duration::from_secs(5), other.lock("k").wait(HOUR).acquire()).await;
    assert!(short.is_err() && begin.elapsed().as_secs() == 5);
    let long = timeout(HOUR * 2, other.lock("k").wait(HOUR).acquire()).await;
    assert!(long.unwrap().unwrap_err().is_busy());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_renewed_ends_at_its_ttl_and_stops_its_section() {
    let store = TestStore::on_paused_time();
    let manager = store.process();
    let begin = Instant::now();
    let request = manager.lock("k").ttl(Duration::from_secs(60)).no_renew();
    let error = request.run(async |_| std::future::pending::<()>().await).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error}");
    let lasted = begin.elapsed();
    assert!(lasted > Duration::from_secs(50) && lasted <= Duration::from_secs(61), "{lasted:?}");
}

/// A suspended machine: when it resumes, all of its leases have expired, and other processes have held the locks.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_is_a_suspend() {
    let store = TestStore::on_paused_time();
    let (one, other) = (store.process(), store.process());
    let guard = one.lock("k").ttl(Duration::from_secs(30)).acquire().await.unwrap();
    advance(Duration::from_secs(29)).await;
    advance(Duration::from_secs(29)).await;
    assert!(guard.is_held(), "renewed in between");
    advance(Duration::from_secs(31)).await;
    assert!(!guard.is_held());
    other.lock("k").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pauses_between_attempts_and_min_hold_take_no_time() {
    let store = TestStore::on_paused_time();
    let (one, other) = (store.process(), store.process());
    let begin = Instant::now();
    one.lock("k").min_hold(HOUR).ttl(HOUR * 2).acquire().await.unwrap().release().await.unwrap();
    let retry = Retry::times(100).delay(Duration::from_secs(120));
    other.lock("k").retry(retry).acquire().await.unwrap().release().await.unwrap();
    assert!(begin.elapsed() >= HOUR);
}

#[tokio::test(start_paused = true)]
async fn many_sections_of_a_minute_are_one_after_the_other() {
    let store = TestStore::on_paused_time();
    let managers: Vec<LockManager> = (0..3).map(|_| store.process()).collect();
    let sections = Sections::of(&managers);
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..30 {
        let request = managers[number % 3].lock("k").wait_forever();
        tasks.spawn(request.run(async |_| tokio::time::sleep(Duration::from_secs(60)).await));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap().unwrap();
    }
    assert!(begin.elapsed() >= Duration::from_secs(30 * 60));
    assert_eq!((sections.count("k").begun, sections.count("k").most_at_once), (30, 1));
}

/// Other tests of this process have real time.
#[tokio::test]
async fn real_time_is_real_beside_a_paused_test() {
    let manager = LockManager::in_memory();
    let guard = manager.lock("k").acquire().await.unwrap();
    let begin = std::time::Instant::now();
    let wait = manager.lock("k").wait(Duration::from_millis(50));
    assert!(wait.acquire().await.unwrap_err().is_busy());
    assert!(begin.elapsed() >= Duration::from_millis(50));
    drop(guard);
}

#[test]
#[should_panic(expected = "inside `#[tokio::test]`")]
fn paused_time_needs_the_runtime_of_the_test() {
    drop(TestStore::on_paused_time());
}
