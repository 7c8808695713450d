//! A number without a name.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", 10)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
