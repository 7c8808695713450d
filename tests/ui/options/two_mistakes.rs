//! Two mistakes, both reported.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<usr_id>", ttl = "10")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
