//! A word.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "soon")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
