//! Zero.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", retries = 3, retry_delay = "0s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
