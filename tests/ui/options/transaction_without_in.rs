//! `transaction` names a variable and a pool.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", transaction = pool)]
async fn f(pool: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
