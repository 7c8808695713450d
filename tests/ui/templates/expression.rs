//! An expression in a placeholder.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<user_id + 1>")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
