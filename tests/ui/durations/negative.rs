//! A negative duration.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "-1s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
