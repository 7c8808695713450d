//! The attribute's main shapes, on every backend.

use std::time::Duration;

use distlock::{FencingToken, Guard, LockError, LockManager, distributed_lock};
use distlock_tests::Backend;

distlock_tests::suite![
    an_async_function_holds_its_key_while_it_runs,
    a_method_takes_its_manager_and_key_from_self,
    a_plain_function_locks_on_its_thread,
    a_busy_lock_is_an_error_or_the_value_asked_for,
    tokens_increase_from_call_to_call,
    several_keys_are_held_together,
    a_dropped_call_releases;
    not on quorum:
    readers_come_together_and_keep_writers_out,
    no_more_than_the_limit_run_at_once;
    only on quorum:
    a_kind_that_a_quorum_does_not_offer_is_an_error_and_runs_nothing,
];

#[distributed_lock(key = "order:<id>", ttl = "10s", manager = locks, guard = lock)]
async fn held_key(locks: &LockManager, id: u64) -> Result<Option<String>, LockError> {
    assert!(lock.is_held() && distlock::is_held_here("order:7"));
    Ok(locks.inspect(lock.key()).await?.map(|info| info.key))
}

async fn an_async_function_holds_its_key_while_it_runs(backend: Backend) {
    let manager = backend.manager().await;
    assert_eq!(held_key(&manager, 7).await.unwrap().as_deref(), Some("order:7"));
    assert_eq!(manager.inspect("order:7").await.unwrap(), None);
}

struct Shop {
    name: String,
    locks: LockManager,
}

impl Shop {
    #[distributed_lock(key = "shop:<self.name>:<product>", manager = self.locks)]
    async fn sell(&mut self, product: &str) -> Result<bool, LockError> {
        self.name.push('!');
        Ok(distlock::is_held_here(format!("shop:corner:{product}")))
    }
}

async fn a_method_takes_its_manager_and_key_from_self(backend: Backend) {
    let mut shop = Shop { name: "corner".into(), locks: backend.manager().await };
    assert!(shop.sell("tea").await.unwrap());
    assert_eq!(shop.name, "corner!");
}

#[distributed_lock(key = "report:<day>", manager = locks)]
fn on_a_thread(locks: &LockManager, day: u32) -> Result<bool, LockError> {
    Ok(distlock::is_held_here(format!("report:{day}")))
}

async fn a_plain_function_locks_on_its_thread(backend: Backend) {
    let manager = backend.manager().await;
    let thread = std::thread::spawn(move || on_a_thread(&manager, 3));
    assert!(tokio::task::spawn_blocking(|| thread.join()).await.unwrap().unwrap().unwrap());
}

#[distributed_lock(key = "draw", wait = "0s", manager = locks)]
async fn once(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "draw", wait = "0s", manager = locks, on_busy = Ok("busy"))]
async fn once_or_busy(locks: &LockManager) -> Result<&'static str, LockError> {
    Ok("done")
}

async fn a_busy_lock_is_an_error_or_the_value_asked_for(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    assert_eq!(once_or_busy(&other).await.unwrap(), "done");
    let guard = one.lock("draw").acquire().await.unwrap();
    assert!(once(&other).await.unwrap_err().is_busy());
    assert_eq!(once_or_busy(&other).await.unwrap(), "busy");
    guard.release().await.unwrap();
    once(&other).await.unwrap();
}

#[distributed_lock(key = "account", token = fence, manager = locks)]
async fn fenced(locks: &LockManager) -> Result<FencingToken, LockError> {
    Ok(fence)
}

async fn tokens_increase_from_call_to_call(backend: Backend) {
    let managers = [backend.manager().await, backend.manager().await];
    let mut last = None;
    for manager in managers.iter().cycle().take(10) {
        let token = Some(fenced(manager).await.unwrap());
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
    }
}

#[distributed_lock(keys = ["account:<from>", "account:<to>"], manager = locks, guard = both)]
async fn transfer(locks: &LockManager, from: u32, to: u32) -> Result<Vec<String>, LockError> {
    Ok(both.keys().map(str::to_owned).collect())
}

async fn several_keys_are_held_together(backend: Backend) {
    let manager = backend.manager().await;
    assert_eq!(transfer(&manager, 2, 1).await.unwrap(), ["account:1", "account:2"]);
}

#[distributed_lock(key = "page", mode = "shared", manager = locks)]
async fn read(locks: &LockManager, together: &tokio::sync::Barrier) -> Result<bool, LockError> {
    together.wait().await;
    Ok(locks.lock("page").label("writer").no_wait().acquire().await.is_err())
}

async fn readers_come_together_and_keep_writers_out(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let together = tokio::sync::Barrier::new(2);
    let (a, b) = tokio::join!(read(&one, &together), read(&other, &together));
    assert!(a.unwrap() && b.unwrap());
}

#[distributed_lock(key = "export", max_holders = 2, wait = "30s", manager = locks)]
async fn export(locks: &LockManager, running: &tokio::sync::Semaphore) -> Result<(), LockError> {
    let _one_of_two = running.try_acquire().expect("a third holder");
    tokio::task::yield_now().await;
    Ok(())
}

async fn no_more_than_the_limit_run_at_once(backend: Backend) {
    let managers = [backend.manager().await, backend.manager().await];
    let running = std::sync::Arc::new(tokio::sync::Semaphore::new(2));
    let mut calls = tokio::task::JoinSet::new();
    for manager in managers.iter().cycle().take(20) {
        let (manager, running) = (manager.clone(), running.clone());
        calls.spawn(async move { export(&manager, &running).await });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap().unwrap();
    }
}

async fn a_kind_that_a_quorum_does_not_offer_is_an_error_and_runs_nothing(backend: Backend) {
    let manager = backend.manager().await;
    let nobody_comes = tokio::sync::Barrier::new(2);
    let error = read(&manager, &nobody_comes).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    let no_room = tokio::sync::Semaphore::new(0);
    let error = export(&manager, &no_room).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
}

#[distributed_lock(key = "slow", ttl = "30s", manager = locks, guard = lock)]
async fn never_ends(locks: &LockManager, began: &tokio::sync::Notify) -> Result<(), LockError> {
    let _: &Guard = lock;
    began.notify_one();
    std::future::pending().await
}

async fn a_dropped_call_releases(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let began = tokio::sync::Notify::new();
    tokio::select! {
        _ = never_ends(&one, &began) => unreachable!("it never ends"),
        () = began.notified() => {}
    }
    let guard = other.lock("slow").wait(Duration::from_secs(20)).acquire().await.unwrap();
    guard.release().await.unwrap();
}
