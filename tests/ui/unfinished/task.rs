//! A task that outlives the function.

use distlock::{LockError, distributed_lock};
#[distributed_lock(key = "k")]
fn f() -> Result<tokio::task::JoinHandle<u8>, LockError> {
    Ok(tokio::spawn(async { 1 }))
}

#[distributed_lock(key = "k")]
fn g() -> Result<std::thread::JoinHandle<u8>, LockError> {
    Ok(std::thread::spawn(|| 1))
}

fn main() {}
