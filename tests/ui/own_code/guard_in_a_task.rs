//! The guard, borrowed by a task that may outlive the function; a clone would do.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", guard = guard)]
async fn f() -> Result<(), LockError> {
    tokio::spawn(async move { guard.is_held() });
    Ok(())
}

fn main() {}
