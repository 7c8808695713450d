//! A colon instead of `=`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key: "k")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
