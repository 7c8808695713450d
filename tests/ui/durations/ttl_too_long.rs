//! Longer than the runtime accepts.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "366d")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
