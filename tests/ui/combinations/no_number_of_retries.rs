//! A mistake in one of two options that exclude each other is reported once.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", retries = "3", wait = "3s")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
