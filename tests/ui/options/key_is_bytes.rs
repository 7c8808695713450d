//! A key of bytes.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = b"k")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
