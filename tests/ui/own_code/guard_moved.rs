//! The guard is borrowed.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", guard = guard)]
async fn f() -> Result<(), LockError> {
    guard.release().await
}

fn main() {}
