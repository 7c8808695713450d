//! Options bind variables for the body that hide an argument.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", guard = id, token = token)]
async fn variables(id: u64, (token, _): (u64, u64)) -> Result<u64, LockError> {
    Ok(id + token)
}

struct Pool;

#[distributed_lock(key = "order", transaction = pool in pool)]
async fn transactions(pool: Pool) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
