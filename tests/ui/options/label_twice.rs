//! A label under both of its names.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", label = "order", name = "order")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
