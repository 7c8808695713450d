//! A fraction without quotes.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = 1.5)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
