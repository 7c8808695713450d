//! A word instead of `true` or `false`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", renew = "no")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
