//! A pool that is no database.

use distlock::{LockError, distributed_lock};

struct Pool;

#[distributed_lock(key = "k", transaction = tx in pool)]
async fn f(pool: Pool) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
