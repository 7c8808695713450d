//! Not a duration.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = true)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
