//! An empty key.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
