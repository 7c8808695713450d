//! Several keys in one request: all or nothing.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{Guard, LockError, LockRequest};
use distlock_tests::{
    Backend, RedisServer, Tally, drop_after, eventually, until_nobody_waits, until_waiting,
};
use tokio::task::JoinSet;

/// Much longer than any test runs: what is gone before was not saved by its expiry.
const LONG: Duration = Duration::from_secs(600);

distlock_tests::suite![
    all_of_them_are_held_and_all_are_released,
    one_busy_key_keeps_all_the_others_free,
    while_one_is_awaited_those_before_it_are_held_and_those_behind_it_are_free,
    keys_that_are_in_use_in_this_process_are_awaited_in_order_too,
    what_the_request_says_of_time_counts_from_the_guard,
    a_guard_that_is_not_renewed_lives_for_its_ttl,
    what_is_in_hand_is_given_back_if_nobody_looks_after_it,
    an_acquire_may_be_dropped_anywhere,
    a_waiting_acquire_may_be_dropped,
    a_release_may_be_dropped_anywhere,
    the_order_of_the_keys_and_repetitions_do_not_matter,
    callers_with_overlapping_keys_do_not_wait_in_a_circle,
    no_key_at_all_or_a_bad_one_is_invalid;
    not on quorum:
    readers_share_all_of_them_and_writers_none,
    a_lock_of_another_kind_among_them_is_named_and_nothing_is_kept,
];

async fn all_of_them_are_held_and_all_are_released(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock_all(["a", "b", "c"]).acquire().await.unwrap();
    for key in ["a", "b", "c"] {
        assert!(other.lock(key).try_acquire().await.unwrap().is_none(), "{key}");
    }
    guard.release().await.unwrap();
    for key in ["a", "b", "c"] {
        backend.is_clean(key).await;
    }
}

async fn one_busy_key_keeps_all_the_others_free(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("b").acquire().await.unwrap();
    let error = other.lock_all(["a", "b", "c"]).no_wait().acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    for key in ["a", "c"] {
        one.lock(key).wait(Duration::from_secs(20)).acquire().await.unwrap().release().await.unwrap();
    }
    guard.release().await.unwrap();
}

async fn while_one_is_awaited_those_before_it_are_held_and_those_behind_it_are_free(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("b").acquire().await.unwrap();
    let request = other.lock_all(["c", "a", "b"]).wait(LONG);
    let waiter = tokio::spawn(request.acquire());
    until_waiting(&one, "b", 1).await;
    assert!(one.lock("a").try_acquire().await.unwrap().is_none());
    one.lock("c").no_wait().acquire().await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
    let all = waiter.await.unwrap().unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    all.release().await.unwrap();
    for key in ["a", "b", "c"] {
        backend.is_clean(key).await;
    }
}

async fn keys_that_are_in_use_in_this_process_are_awaited_in_order_too(backend: Backend) {
    let manager = backend.manager().await;
    for busy in ["a", "b", "c"] {
        let guard = manager.lock(busy).acquire().await.unwrap();
        let waiter = tokio::spawn(manager.lock_all(["a", "b", "c"]).wait(LONG).acquire());
        until_waiting(&manager, busy, 1).await;
        guard.release().await.unwrap();
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    backend.is_clean("a").await;
}

async fn readers_share_all_of_them_and_writers_none(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let keys = ["a", "b", "c"];
    let first = one.lock_all(keys).shared().acquire().await.unwrap();
    let second = other.lock_all(keys).shared().no_wait().acquire().await.unwrap();
    assert!(one.lock_all(keys).try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(other.lock("c").try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    let writer = one.lock_all(keys).no_wait().acquire().await.unwrap();
    assert!(other.lock_all(keys).shared().try_acquire().await.unwrap().is_none());
    writer.release().await.unwrap();
    backend.is_clean("a").await;
}

async fn a_lock_of_another_kind_among_them_is_named_and_nothing_is_kept(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let limited = one.lock("b").max_holders(2).acquire().await.unwrap();
    for request in [other.lock_all(["a", "b", "c"]), other.lock_all(["a", "b", "c"]).shared()] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(&error, LockError::WrongKind { key, .. } if key.as_str() == "b"), "{error:?}");
    }
    limited.release().await.unwrap();
    for key in ["a", "b", "c"] {
        backend.is_clean(key).await;
    }
}

/// More polls than any of these futures needs.
const MANY: usize = 200;

/// While the request waits for `b`, longer than any of the times it names, it has `a` already.
async fn while_the_second_is_awaited(backend: &Backend, request: LockRequest) -> Result<Guard, LockError> {
    let holder = backend.manager().await;
    let busy = holder.lock("b").acquire().await.unwrap();
    let waiter = tokio::spawn(request.wait(LONG).acquire());
    until_waiting(&holder, "b", 1).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    busy.release().await.unwrap();
    waiter.await.unwrap()
}

async fn what_the_request_says_of_time_counts_from_the_guard(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let short = Duration::from_millis(800);
    let request = one.lock_all(["a", "b"]).max_hold(short);
    let guard = while_the_second_is_awaited(&backend, request).await.unwrap();
    guard.check().unwrap();
    assert!(guard.lost().await.is_lost());
    drop(guard);

    let request = one.lock_all(["a", "b"]).min_hold(short);
    let guard = while_the_second_is_awaited(&backend, request).await.unwrap();
    let start = Instant::now();
    guard.release().await.unwrap();
    for key in ["a", "b"] {
        other.lock(key).wait(LONG).acquire().await.unwrap().release().await.unwrap();
        assert!(start.elapsed() >= short / 2, "{key} was free after {:?}", start.elapsed());
    }
}

async fn a_guard_that_is_not_renewed_lives_for_its_ttl(backend: Backend) {
    let one = backend.manager().await;
    let ttl = Duration::from_millis(900);
    let request = one.lock_all(["a", "b"]).ttl(ttl).no_renew();
    let guard = while_the_second_is_awaited(&backend, request).await.unwrap();
    let start = Instant::now();
    assert!(guard.lost().await.is_lost());
    assert!(start.elapsed() >= ttl / 2, "{:?}", start.elapsed());
}

/// The future has `a`, is granted `b`, and is not polled.
async fn what_is_in_hand_is_given_back_if_nobody_looks_after_it(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let busy = other.lock("b").acquire().await.unwrap();
    let mut request = pin!(one.lock_all(["a", "b"]).ttl(Duration::from_millis(1_500)).wait(LONG).acquire());
    let waiting = async {
        until_waiting(&other, "b", 1).await;
    };
    tokio::select! {
        biased;
        guard = &mut request => panic!("{guard:?}"),
        () = waiting => {}
    }
    busy.release().await.unwrap();
    for key in ["a", "b"] {
        other.lock(key).wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    }
    // It goes on as if nothing had been.
    request.await.unwrap().release().await.unwrap();
}

async fn an_acquire_may_be_dropped_anywhere(backend: Backend) {
    let manager = backend.manager().await;
    for polls in 1..MANY {
        let acquire = manager.lock_all(["a", "b", "c"]).ttl(LONG).acquire();
        let finished = drop_after(polls, acquire).await.is_some();
        for key in ["a", "b", "c"] {
            backend.is_clean(key).await;
        }
        if finished {
            return;
        }
    }
    panic!("not finished after {MANY} polls");
}

async fn a_waiting_acquire_may_be_dropped(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    for busy in ["a", "b", "c"] {
        let guard = one.lock(busy).ttl(LONG).acquire().await.unwrap();
        let waiter = tokio::spawn(other.lock_all(["a", "b", "c"]).ttl(LONG).wait(LONG).acquire());
        until_waiting(&one, busy, 1).await;
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
        until_nobody_waits(&one, busy).await;
        guard.release().await.unwrap();
        for key in ["a", "b", "c"] {
            backend.is_clean(key).await;
        }
    }
}

async fn a_release_may_be_dropped_anywhere(backend: Backend) {
    let manager = backend.manager().await;
    for polls in 0..MANY {
        let guard = manager.lock_all(["a", "b", "c"]).ttl(LONG).acquire().await.unwrap();
        let finished = drop_after(polls, guard.release()).await.is_some();
        for key in ["a", "b", "c"] {
            backend.is_clean(key).await;
        }
        if finished {
            return;
        }
    }
    panic!("not finished after {MANY} polls");
}

#[tokio::test]
async fn free_keys_cost_one_command_and_their_release_one_each() {
    let server = RedisServer::start();
    let manager = distlock::LockManager::connect(&server.url()).await.unwrap();
    let keys = ["a", "b", "c", "d", "e"];
    for kind in ["exclusive", "shared"] {
        let request = manager.lock_all(keys);
        let request = if kind == "shared" { request.shared() } else { request };
        let scripts = || server.calls("evalsha");
        let before = scripts();
        let (texts, sets) = (server.calls("eval"), server.calls("set"));
        let guard = request.acquire().await.unwrap();
        assert_eq!(scripts() - before, 1, "{kind}");
        // Those inside the script are counted too: there are no others.
        assert_eq!(server.calls("set") - sets, 5, "{kind}");
        guard.release().await.unwrap();
        assert_eq!(scripts() - before, 1 + 5, "{kind}");
        assert_eq!(server.calls("eval"), texts, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_busy_key_one_command_takes_the_rest() {
    let server = RedisServer::start();
    let one = distlock::LockManager::connect(&server.url()).await.unwrap();
    let other = distlock::LockManager::connect(&server.url()).await.unwrap();
    let guard = one.lock("b").acquire().await.unwrap();
    let before = server.calls("evalsha");
    let waiter = tokio::spawn(other.lock_all(["a", "b", "c", "d", "e"]).wait(LONG).acquire());
    until_waiting(&one, "b", 1).await;
    guard.release().await.unwrap();
    let all = waiter.await.unwrap().unwrap();
    // For `a` and `b`, to queue for `b`, its release, and for the rest. A renewal may come in between.
    let calls = server.calls("evalsha") - before;
    assert!((4..=5).contains(&calls), "{calls} commands");
    all.release().await.unwrap();
    eventually("nothing is left", async || server.keys().is_empty()).await;
}

async fn the_order_of_the_keys_and_repetitions_do_not_matter(backend: Backend) {
    let manager = backend.manager().await;
    manager.lock_all(["b", "a", "b", "a"]).acquire().await.unwrap().release().await.unwrap();
    backend.is_clean("a").await;
}

async fn callers_with_overlapping_keys_do_not_wait_in_a_circle(backend: Backend) {
    const ROUNDS: u64 = 10;
    let sets = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]];
    let tally = Arc::new([Tally::default(), Tally::default(), Tally::default()]);
    let mut tasks = JoinSet::new();
    for set in sets {
        let (manager, tally) = (backend.manager().await, tally.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = manager.lock_all(set).wait(Duration::from_secs(60)).acquire().await.unwrap();
                for key in set {
                    tally[usize::from(key.as_bytes()[0] - b'a')].increment().await;
                }
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!([0, 1, 2].map(|index| tally[index].value()), [3 * ROUNDS, 3 * ROUNDS, 2 * ROUNDS]);
}

async fn no_key_at_all_or_a_bad_one_is_invalid(backend: Backend) {
    let manager = backend.manager().await;
    assert!(manager.lock_all(Vec::<String>::new()).acquire().await.is_err());
    let error = manager.lock_all(["a", ""]).acquire().await.unwrap_err();
    assert!(matches!(error, distlock::LockError::InvalidKey { .. }), "{error:?}");
    assert!(
        manager.lock_all(["a", "b"]).fenced().acquire().await.is_err(),
        "no single token orders several keys"
    );
    backend.is_clean("a").await;
}
