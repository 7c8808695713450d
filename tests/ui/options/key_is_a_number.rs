//! A key that is neither a template nor an expression.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = 5)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
