//! An argument instead of an option.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order", user_id)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
