//! `retry_delay` without `retries`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", retry_delay = "100ms")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
