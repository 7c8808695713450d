//! An unknown option that is close to a known one.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", tll = "10s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
