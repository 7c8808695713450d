//! Too long.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "99999999999999999999s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
