//! A word where `true` or `false` belongs.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", renew = "no")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
