//! Options that belong to the manager.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", prefix = "app:")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
