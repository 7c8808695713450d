//! The attribute's main shapes, on every place.

use std::time::Duration;

use crate::testing::conformance::Place;
use crate::{Guard, LockError, LockManager, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", manager = locks, guard = lock)]
async fn held_key(locks: &LockManager, id: u64) -> Result<Option<String>, LockError> {
    assert!(lock.is_held() && crate::is_held_here("order:7"));
    Ok(locks.inspect(lock.key()).await?.map(|info| info.key))
}

pub async fn an_async_function_holds_its_key_while_it_runs(place: Place) {
    let manager = place.manager().await;
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
        Ok(crate::is_held_here(format!("shop:corner:{product}")))
    }
}

pub async fn a_method_takes_its_manager_and_key_from_self(place: Place) {
    let mut shop = Shop { name: "corner".into(), locks: place.manager().await };
    assert!(shop.sell("tea").await.unwrap());
    assert_eq!(shop.name, "corner!");
}

#[distributed_lock(key = "report:<day>", manager = locks)]
fn on_a_thread(locks: &LockManager, day: u32) -> Result<bool, LockError> {
    Ok(crate::is_held_here(format!("report:{day}")))
}

pub async fn a_plain_function_locks_on_its_thread(place: Place) {
    let manager = place.manager().await;
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

pub async fn a_busy_lock_is_an_error_or_the_value_asked_for(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    assert_eq!(once_or_busy(&other).await.unwrap(), "done");
    let guard = one.lock("draw").acquire().await.unwrap();
    assert!(once(&other).await.unwrap_err().is_busy());
    assert_eq!(once_or_busy(&other).await.unwrap(), "busy");
    guard.release().await.unwrap();
    once(&other).await.unwrap();
}

#[distributed_lock(keys = ["account:<from>", "account:<to>"], manager = locks, guard = both)]
async fn transfer(locks: &LockManager, from: u32, to: u32) -> Result<Vec<String>, LockError> {
    Ok(both.keys().map(str::to_owned).collect())
}

pub async fn several_keys_are_held_together(place: Place) {
    let manager = place.manager().await;
    assert_eq!(transfer(&manager, 2, 1).await.unwrap(), ["account:1", "account:2"]);
}

#[distributed_lock(key = "slow", ttl = "30s", manager = locks, guard = lock)]
async fn never_ends(locks: &LockManager, began: &tokio::sync::Notify) -> Result<(), LockError> {
    let _: &Guard = lock;
    began.notify_one();
    std::future::pending().await
}

pub async fn a_dropped_call_releases(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let began = tokio::sync::Notify::new();
    tokio::select! {
        _ = never_ends(&one, &began) => unreachable!("it never ends"),
        () = began.notified() => {}
    }
    let guard = other.lock("slow").wait(Duration::from_secs(20)).acquire().await.unwrap();
    guard.release().await.unwrap();
}
