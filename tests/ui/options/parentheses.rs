//! Parentheses instead of `=`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl("10s"))]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
