//! Locks without a single fencing token, and a lock whose transaction would wait for its own row.

use distlock::fence::FencedDatabase;
use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = ["a", "b"], transaction = tx in pool)]
async fn several<D: FencedDatabase>(pool: D) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", mode = "shared", transaction = tx in pool)]
async fn shared<D: FencedDatabase>(pool: D) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", reentrant = true, transaction = tx in pool)]
async fn nested<D: FencedDatabase>(pool: D) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", max_holders = 2, fence = fence)]
async fn limited<D: FencedDatabase>(pool: D) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
