//! A duration of zero.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", linger = "0s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
