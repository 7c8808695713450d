//! Braces with nothing in them.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:{}")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
