//! The conversion of lock errors to errors of the function: `From`, `map_err`.

use std::error::Error;

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{AppError, locked};

#[distributed_lock(key = "k", wait = "0s")]
async fn from() -> Result<(), AppError> {
    Err(AppError::Refused)
}

#[distributed_lock(key = "k", wait = "0s")]
async fn boxed() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _: u8 = "x".parse()?;
    Ok(())
}

#[distributed_lock(key = "k", wait = "0s")]
async fn anyhow_error() -> anyhow::Result<()> {
    anyhow::bail!("own error")
}

#[distributed_lock(key = "k", wait = "0s", map_err = AppError::Lock)]
async fn by_path() -> Result<(), AppError> {
    Ok(())
}

#[distributed_lock(key = "k", wait = "0s", map_err = |error| (id, error.is_busy()))]
async fn by_closure(id: u64) -> Result<(), (u64, bool)> {
    Ok(())
}

#[distributed_lock(key = "k", wait = "0s", map_err = |error: LockError| std::io::Error::other(error))]
async fn alias() -> std::io::Result<()> {
    Ok(())
}

#[distributed_lock(key = "k", wait = "0s", map_err = Into::into)]
async fn by_into() -> Result<(), Box<dyn Error>> {
    Ok(())
}

#[distributed_lock(key = "k", wait = "0s", map_err = |_| "busy", manager = manager)]
fn on_a_thread(manager: &LockManager) -> Result<(), &'static str> {
    Ok(())
}

#[tokio::test]
async fn a_busy_lock_becomes_the_error_of_the_function() {
    locked(async {
        let manager = LockManager::current().unwrap();
        let _guard = manager.lock("k").acquire().await.unwrap();
        assert!(from().await.unwrap_err().is_busy());
        assert!(boxed().await.unwrap_err().downcast_ref::<LockError>().unwrap().is_busy());
        assert!(anyhow_error().await.unwrap_err().downcast_ref::<LockError>().unwrap().is_busy());
        assert!(by_path().await.unwrap_err().is_busy());
        assert_eq!(by_closure(3).await.unwrap_err(), (3, true));
        assert!(alias().await.unwrap_err().to_string().contains("busy"));
        assert!(by_into().await.unwrap_err().to_string().contains("busy"));
        assert_eq!(on_a_thread(&manager).unwrap_err(), "busy");
    })
    .await;
}

#[tokio::test]
async fn the_errors_of_the_body_stay_as_they_are() {
    locked(async {
        assert!(matches!(from().await, Err(AppError::Refused)));
        assert!(boxed().await.unwrap_err().is::<std::num::ParseIntError>());
        assert_eq!(anyhow_error().await.unwrap_err().to_string(), "own error");
    })
    .await;
}
