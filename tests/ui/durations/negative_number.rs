//! A negative number.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = -1)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
