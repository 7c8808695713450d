//! `wait` with `retries`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", wait = "3s", retries = 3)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
