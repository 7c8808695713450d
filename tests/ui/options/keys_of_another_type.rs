//! An iterator whose items are not keys.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = ids)]
async fn f(ids: Vec<u64>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
