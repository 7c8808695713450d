//! `linger` with options that exclude it.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = ["a", "b"], linger = "50ms")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
