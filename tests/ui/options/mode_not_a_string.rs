//! A mode that is not a string.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", mode = shared)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
