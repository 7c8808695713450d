//! What belongs to the manager.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", prefix = "app:")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
