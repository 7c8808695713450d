//! An empty string.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
