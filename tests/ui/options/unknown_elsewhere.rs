//! An option under its name in other libraries.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", timeout = "10s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
