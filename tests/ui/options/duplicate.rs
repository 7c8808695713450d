//! An option given twice.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "10s", ttl = "20s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
