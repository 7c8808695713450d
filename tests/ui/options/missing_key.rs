//! Neither `key` nor `keys`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(ttl = "10s")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
