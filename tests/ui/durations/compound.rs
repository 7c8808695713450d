//! Several units.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "1m30s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
