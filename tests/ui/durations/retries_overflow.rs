//! Too many attempts.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", retries = 99999999999)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
