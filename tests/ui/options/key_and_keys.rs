//! `key` and `keys` together.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", keys = ["a", "b"])]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
