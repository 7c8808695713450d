//! A `linger` during which other processes would wait for an unused lock.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", linger = "11s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
