//! Zero.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", max_hold = "0ms")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
