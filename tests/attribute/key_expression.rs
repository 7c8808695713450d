//! `key = expr`.

use std::borrow::Cow;
use std::sync::Arc;

use distlock::{LockError, LockKey, distributed_lock};

use crate::support::{AppError, locked};

const KEY: &str = "constant";

struct Order {
    key: String,
    shared: Arc<str>,
    checked: LockKey,
}

#[distributed_lock(key = KEY, guard = guard)]
async fn path() -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = format!("order:{}", id + 1), guard = guard)]
async fn call(id: u64) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = order.key, guard = guard)]
async fn field(order: Order) -> Result<String, LockError> {
    assert_eq!(order.key, guard.key());
    Ok(order.key)
}

#[distributed_lock(key = order.shared, guard = guard)]
async fn shared(order: &Order) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = order.checked, guard = guard)]
async fn checked(order: &Order) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = LockKey::new(name), guard = guard)]
async fn result(name: &str) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = text, guard = guard)]
async fn cow(text: Cow<'_, str>) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

fn parsed(text: &str) -> Result<String, AppError> {
    text.strip_prefix("ok:").map(str::to_owned).ok_or(AppError::Refused)
}

async fn looked_up(text: &str) -> String {
    tokio::task::yield_now().await;
    text.to_uppercase()
}

#[distributed_lock(key = parsed(text)?, guard = guard)]
async fn fallible(text: &str) -> Result<String, AppError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = looked_up(text).await, guard = guard)]
async fn awaited(text: &str) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = if even { "even" } else { "odd" }, guard = guard)]
async fn chosen(even: bool) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[tokio::test]
async fn every_kind_of_expression() {
    locked(async {
        let order = || Order { key: "k1".into(), shared: "k2".into(), checked: LockKey::new("k3").unwrap() };
        assert_eq!(path().await.unwrap(), "constant");
        assert_eq!(call(1).await.unwrap(), "order:2");
        assert_eq!(field(order()).await.unwrap(), "k1");
        assert_eq!(shared(&order()).await.unwrap(), "k2");
        assert_eq!(checked(&order()).await.unwrap(), "k3");
        assert_eq!(result("k4").await.unwrap(), "k4");
        assert_eq!(cow("k5".into()).await.unwrap(), "k5");
        assert_eq!(fallible("ok:k6").await.unwrap(), "k6");
        assert!(matches!(fallible("k6").await, Err(AppError::Refused)));
        assert_eq!(awaited("k7").await.unwrap(), "K7");
        assert_eq!(chosen(true).await.unwrap(), "even");
        assert_eq!(chosen(false).await.unwrap(), "odd");
    })
    .await;
}

#[tokio::test]
async fn a_bad_key_is_an_error_and_nothing_runs() {
    locked(async {
        assert!(matches!(result("").await, Err(LockError::InvalidKey { .. })));
        assert!(matches!(cow("".into()).await, Err(LockError::InvalidKey { .. })));
    })
    .await;
}
