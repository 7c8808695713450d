//! No key in the list.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = [])]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
