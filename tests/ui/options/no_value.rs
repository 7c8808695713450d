//! An option without a value.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", reentrant)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
