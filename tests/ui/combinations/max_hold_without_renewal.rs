//! `max_hold` without renewal.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", max_hold = "10m", renew = false)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
