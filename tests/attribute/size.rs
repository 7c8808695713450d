//! The bytes that the wrapper adds to a future.

use distlock::{LockError, distributed_lock};

async fn bare(argument: [u8; 1024]) -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(argument[0])
}

#[distributed_lock(key = "k")]
async fn wrapped(argument: [u8; 1024]) -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(argument[0])
}

async fn bare_small() -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(1)
}

#[distributed_lock(key = "k")]
async fn wrapped_small() -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(1)
}

#[distributed_lock(key = "k", guard = held)]
async fn wrapped_with_guard() -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    held.check()?;
    Ok(1)
}

#[test]
fn an_argument_is_copied_once_more_and_the_rest_is_bounded() {
    let fixed = size_of_val(&wrapped_small()) - size_of_val(&bare_small());
    let grown = size_of_val(&wrapped([0; 1024])) - size_of_val(&bare([0; 1024]));
    let with_guard = size_of_val(&wrapped_with_guard()) - size_of_val(&bare_small());
    println!("fixed {fixed}, with a guard {with_guard}, with 1 KiB {grown}");
    assert!(fixed <= 128, "{fixed}");
    assert!(with_guard <= 300, "{with_guard}");
    assert!(grown <= fixed + 1024 + 64, "{grown}");
}
