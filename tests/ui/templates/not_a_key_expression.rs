//! An expression that is not a key.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = user_id)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
