//! `wait`, `retries`, `retry_delay`.

use std::time::{Duration, Instant};

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{SHORT, locked};

#[distributed_lock(key = "k", wait = "0s")]
async fn once() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", wait = "40ms")]
async fn briefly() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", wait = wait)]
async fn as_long_as(wait: Duration) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", wait = "forever")]
async fn forever() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", retries = 3, retry_delay = "20ms")]
async fn retried() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", retries = times, retry_delay = delay)]
async fn retried_by_expression(times: u32, delay: Duration) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", retries = 1)]
async fn retried_with_the_usual_delay() -> Result<(), LockError> {
    Ok(())
}

async fn timed(call: impl Future<Output = Result<(), LockError>>) -> (Result<(), LockError>, Duration) {
    let started = Instant::now();
    let result = call.await;
    (result, started.elapsed())
}

#[tokio::test]
async fn a_busy_lock_is_waited_for_as_long_as_asked() {
    locked(async {
        let guard = LockManager::current().unwrap().lock("k").acquire().await.unwrap();
        let error = once().await.unwrap_err();
        assert!(matches!(error, LockError::Busy { waited: Duration::ZERO, .. }), "{error:?}");
        let (result, took) = timed(briefly()).await;
        assert!(result.unwrap_err().is_busy() && took >= SHORT, "{took:?}");
        let (result, took) = timed(as_long_as(SHORT * 2)).await;
        assert!(result.unwrap_err().is_busy() && took >= SHORT * 2, "{took:?}");
        assert!(as_long_as(Duration::ZERO).await.unwrap_err().is_busy());
        let (result, took) = timed(retried()).await;
        assert!(result.unwrap_err().is_busy() && took >= Duration::from_millis(30), "{took:?}");
        let (result, took) = timed(retried_by_expression(2, SHORT)).await;
        assert!(result.unwrap_err().is_busy() && took >= SHORT, "{took:?}");

        let waiting = async { tokio::join!(forever(), retried_with_the_usual_delay()) };
        // Both have found it busy by now, and the pause of the second one has just begun.
        let release = async { guard.release().await.unwrap() };
        let ((waited, retried), ()) = tokio::join!(waiting, release);
        waited.unwrap();
        retried.unwrap();
    })
    .await;
}
