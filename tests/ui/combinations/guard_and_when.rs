//! `guard` with `when`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", guard = guard, when = user_id > 0)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
