//! `on_lost = "cancel"` on a function that is not async.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", on_lost = "cancel")]
fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
