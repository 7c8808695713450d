//! `guard` is not a name.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", guard = "guard")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
