//! A value that is not a pool.

use distlock::{LockError, distributed_lock};

struct Pool;

#[distributed_lock(key = "k", transaction = tx in pool)]
async fn f(pool: Pool) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
