//! An unknown unit that can be guessed.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "10 seconds")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
