//! A template instead of a list.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = "k")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
