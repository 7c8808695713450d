//! A label that is not a string.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", label = 5)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
