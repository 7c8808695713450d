//! Together with other attributes.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use distlock::{LockError, LockManager, distributed_lock};
use tracing::instrument;

use crate::support::{assert_held, locked};

#[instrument(skip(name))]
#[distributed_lock(key = "k:<id>:<name>")]
async fn below_instrument(id: u64, name: &str) -> Result<usize, LockError> {
    assert_held(&format!("k:{id}:{name}")).await;
    Ok(name.len())
}

#[distributed_lock(key = "k:<id>:<name>")]
#[instrument(fields(id = id), skip(name))]
async fn above_instrument(id: u64, name: &str) -> Result<usize, LockError> {
    assert_held(&format!("k:{id}:{name}")).await;
    Ok(name.len())
}

#[distributed_lock(key = "k:<id>")]
#[instrument]
async fn above_instrument_with_a_pattern((id, _): (u64, u8)) -> Result<u64, LockError> {
    assert_held("k:1").await;
    Ok(id)
}

#[instrument(err, ret)]
#[distributed_lock(key = "k")]
fn below_instrument_on_a_thread() -> Result<usize, LockError> {
    Ok(1)
}

#[instrument]
#[distributed_lock(key = "k:<id>")]
fn below_instrument_a_future(
    id: u64,
) -> std::pin::Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    Box::pin(async move { Ok(id) })
}

#[tokio::test]
async fn instrument() {
    locked(async {
        assert_eq!(below_instrument(1, "a").await.unwrap(), 1);
        assert_eq!(above_instrument(1, "a").await.unwrap(), 1);
        assert_eq!(above_instrument_with_a_pattern((1, 2)).await.unwrap(), 1);
        assert_eq!(below_instrument_a_future(1).await.unwrap(), 1);
    })
    .await;
    assert!(matches!(below_instrument_on_a_thread(), Err(LockError::NotInitialized)));
}

#[distributed_lock(key = "k", manager = LockManager::in_memory(), guard = guard)]
#[tokio::test]
async fn above_tokio_test() -> Result<(), LockError> {
    guard.check()
}

#[distributed_lock(key = "k", manager = LockManager::in_memory(), guard = guard, on_error = |error| panic!("{error}"))]
#[tokio::test]
async fn above_tokio_test_without_a_return_type() {
    assert!(guard.is_held());
}

#[distributed_lock(key = "k", manager = LockManager::in_memory(), guard = guard)]
#[tokio::main(flavor = "current_thread", crate = "tokio")]
async fn above_tokio_main() -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[test]
fn tokio_main() {
    assert_eq!(above_tokio_main().unwrap(), "k");
}

#[test]
#[distributed_lock(key = "k", manager = LockManager::in_memory(), guard = guard)]
fn below_test() -> Result<(), LockError> {
    guard.check()
}

fn status(_: LockError) -> StatusCode {
    StatusCode::CONFLICT
}

#[axum::debug_handler]
#[distributed_lock(key = "user:<user_id>", manager = locks, map_err = status)]
async fn below_debug_handler(
    State(locks): State<LockManager>,
    Path(user_id): Path<u64>,
) -> Result<String, StatusCode> {
    Ok(user_id.to_string())
}

#[distributed_lock(key = "user:<user_id>", manager = locks, map_err = status)]
#[axum::debug_handler(state = LockManager)]
async fn above_debug_handler(
    State(locks): State<LockManager>,
    Path(user_id): Path<u64>,
    _: axum::http::Method,
) -> Result<String, StatusCode> {
    Ok(user_id.to_string())
}

#[tokio::test]
async fn handlers() {
    let locks = LockManager::in_memory();
    let router: axum::Router = axum::Router::new()
        .route("/{id}", axum::routing::get(below_debug_handler).post(above_debug_handler))
        .with_state(locks.clone());
    drop(router);
    assert_eq!(below_debug_handler(State(locks.clone()), Path(1)).await.unwrap(), "1");
    let method = axum::http::Method::GET;
    assert_eq!(above_debug_handler(State(locks), Path(1), method).await.unwrap(), "1");
}

#[distributed_lock(key = "k")]
#[must_use = "kept"]
#[inline]
#[cfg_attr(all(), doc = "kept")]
async fn ordinary() -> Result<(), LockError> {
    #![allow(unused_variables)]
    let unused = 1;
    Ok(())
}

#[tokio::test]
async fn ordinary_attributes() {
    locked(async { ordinary().await.unwrap() }).await;
}
