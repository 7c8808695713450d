//! `on_busy = expr`.

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{AppError, locked};

#[derive(Debug, PartialEq)]
enum Outcome {
    Done(String),
    Skipped(String),
}

#[distributed_lock(key = "k", wait = "0s", on_busy = Ok(None))]
async fn value() -> Result<Option<u8>, LockError> {
    Ok(Some(1))
}

#[distributed_lock(key = "k", wait = "0s", on_busy = Ok(Outcome::Skipped(text)))]
async fn moves_an_argument(text: String) -> Result<Outcome, LockError> {
    Ok(Outcome::Done(text))
}

#[distributed_lock(key = "k", wait = "0s", on_busy = Err(AppError::Refused))]
async fn own_error() -> Result<(), AppError> {
    Ok(())
}

async fn queue(text: &str) -> Result<Outcome, AppError> {
    tokio::task::yield_now().await;
    if text.is_empty() { Err(AppError::Refused) } else { Ok(Outcome::Skipped(text.to_owned())) }
}

#[distributed_lock(key = "k", wait = "0s", on_busy = { let queued = queue(&text).await?; Ok(queued) })]
async fn awaits_and_asks(text: String) -> Result<Outcome, AppError> {
    Ok(Outcome::Done(text))
}

#[distributed_lock(key = "k", wait = "0s", on_busy = return Ok(2))]
async fn returns() -> Result<u8, LockError> {
    Ok(1)
}

#[distributed_lock(key = "k", wait = "0s", on_busy = Ok(Box::new(2)))]
async fn coerces() -> Result<Box<dyn std::fmt::Display>, LockError> {
    Ok(Box::new("one"))
}

#[distributed_lock(key = "k", wait = "0s", on_busy = "busy", on_error = |_| "error")]
async fn with_on_error() -> &'static str {
    "done"
}

#[distributed_lock(key = "k", wait = "0s", on_busy = (), on_error = |error| panic!("{error}"))]
async fn unit() {}

#[distributed_lock(key = "k", wait = "0s", on_busy = Ok(0), manager = manager)]
fn on_a_thread(manager: &LockManager) -> Result<u8, LockError> {
    Ok(1)
}

#[distributed_lock(key = "k", wait = "0s", on_busy = Ok(0))]
fn of_a_returned_future(id: u8) -> impl Future<Output = Result<u8, LockError>> {
    async move { Ok(id) }
}

#[tokio::test]
async fn it_is_the_value_when_the_lock_is_busy() {
    locked(async {
        let manager = LockManager::current().unwrap();
        let guard = manager.lock("k").acquire().await.unwrap();
        assert_eq!(value().await.unwrap(), None);
        assert_eq!(moves_an_argument("a".into()).await.unwrap(), Outcome::Skipped("a".into()));
        assert!(matches!(own_error().await, Err(AppError::Refused)));
        assert_eq!(awaits_and_asks("a".into()).await.unwrap(), Outcome::Skipped("a".into()));
        assert!(matches!(awaits_and_asks(String::new()).await, Err(AppError::Refused)));
        assert_eq!(returns().await.unwrap(), 2);
        assert_eq!(coerces().await.unwrap().to_string(), "2");
        assert_eq!(with_on_error().await, "busy");
        unit().await;
        assert_eq!(on_a_thread(&manager).unwrap(), 0);
        assert_eq!(of_a_returned_future(1).await.unwrap(), 0);
        guard.release().await.unwrap();

        assert_eq!(value().await.unwrap(), Some(1));
        assert_eq!(moves_an_argument("a".into()).await.unwrap(), Outcome::Done("a".into()));
        own_error().await.unwrap();
        assert_eq!(awaits_and_asks("a".into()).await.unwrap(), Outcome::Done("a".into()));
        assert_eq!(returns().await.unwrap(), 1);
        assert_eq!(coerces().await.unwrap().to_string(), "one");
        assert_eq!(with_on_error().await, "done");
        unit().await;
        assert_eq!(on_a_thread(&manager).unwrap(), 1);
        assert_eq!(of_a_returned_future(1).await.unwrap(), 1);
    })
    .await;
}

#[distributed_lock(key = "k", wait = "0s", on_busy = Ok(None))]
async fn nested() -> Result<Option<u8>, LockError> {
    value().await
}

#[tokio::test]
async fn it_covers_nothing_else() {
    assert!(matches!(value().await, Err(LockError::NotInitialized)));
    assert_eq!(with_on_error().await, "error");
    locked(async { assert!(matches!(nested().await, Err(LockError::WouldDeadlock { .. }))) }).await;
}
