//! An expression that is not a `Duration`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = user_id)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
