//! Shorter than the runtime accepts.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "9ms")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
