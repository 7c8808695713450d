//! An unknown unit.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "10 apples")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
