//! A semaphore with zero permits.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", max_holders = 0)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
