//! `min_hold` longer than `ttl` without renewal.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", min_hold = "1m", ttl = "10s", renew = false)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
