//! An unknown mode.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", mode = "share")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
