//! A value that is not an expression.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", on_busy = struct)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
