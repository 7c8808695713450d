//! A time in which others would wait for a lock that nobody uses.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", linger = "11s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
