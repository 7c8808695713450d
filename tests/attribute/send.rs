//! The future is `Send` and `Sync` if and only if the body's future and its value are.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::locked;

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[distributed_lock(key = "k:<id>", guard = guard, on_busy = Ok(0), map_err = |error| error.to_string())]
async fn with_everything(id: u64, text: &str, mut list: Vec<String>) -> Result<usize, String> {
    tokio::task::yield_now().await;
    list.push(text.to_owned());
    guard.check().map_err(|error| error.to_string())?;
    Ok(list.len())
}

#[distributed_lock(key = *text.lock().map_err(|_| LockError::busy("poisoned"))?)]
async fn temporaries_of_the_key_are_gone(text: &Mutex<String>) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(key = Rc::new(String::from("k")).as_str(), manager = Rc::new(LockManager::current()?))]
async fn non_send_temporaries() -> Result<(), LockError> {
    Ok(())
}

async fn later<T>(value: T) -> T {
    tokio::task::yield_now().await;
    value
}

const TTL: Duration = Duration::from_secs(10);

#[distributed_lock(key = "k:<id>", ttl = later(TTL).await)]
async fn an_option_that_awaits(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(
    keys = [Rc::new(String::from("k")).as_str(), "k:<id>"],
    ttl = *Rc::new(later(TTL).await),
    wait = later(TTL).await
)]
async fn options_with_temporaries(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k:<id>", when = *Rc::new(later(true).await), ttl = later(TTL).await)]
fn a_returned_future(id: u64) -> impl Future<Output = Result<(), LockError>> + Send {
    async move { Ok(()) }
}

#[distributed_lock(key = "k")]
async fn with_rc(value: Rc<u8>) -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(*value)
}

#[distributed_lock(key = "k")]
async fn with_cell(value: &Cell<u8>) -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(value.get())
}

#[distributed_lock(key = "k:<id>", on_error = |error| panic!("{error}"))]
async fn generic<T: std::fmt::Display>(id: T) -> T {
    tokio::task::yield_now().await;
    id
}

fn assert_sync<T: Sync>(value: T) -> T {
    value
}

#[tokio::test]
async fn a_sync_body_makes_a_sync_future() {
    locked(async {
        assert_eq!(assert_sync(with_everything(1, "a", vec![])).await.unwrap(), 1);
        assert_sync(generic(1)).await;
    })
    .await;
}

#[tokio::test]
async fn a_send_body_makes_a_send_future() {
    locked(async {
        assert_eq!(assert_send(with_everything(1, "a", vec![])).await.unwrap(), 1);
        let text = Mutex::new("k".to_owned());
        assert_send(temporaries_of_the_key_are_gone(&text)).await.unwrap();
        assert_send(non_send_temporaries()).await.unwrap();
        assert_send(generic(1)).await;
        assert_send(an_option_that_awaits(1)).await.unwrap();
        assert_send(options_with_temporaries(1)).await.unwrap();
        a_returned_future(1).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_not_send_works_too() {
    locked(async {
        assert_eq!(with_rc(Rc::new(1)).await.unwrap(), 1);
        assert_eq!(with_cell(&Cell::new(2)).await.unwrap(), 2);
    })
    .await;
}
