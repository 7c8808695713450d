//! An unknown option.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", colour = "red")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
