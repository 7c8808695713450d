//! An empty label.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", label = "")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
