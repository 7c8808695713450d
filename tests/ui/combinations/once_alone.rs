//! `once` needs `transaction`, and `once_of` needs `once`.

use distlock::fence::FencedDatabase;
use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", once = "24h")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", transaction = tx in pool, once_of = 1)]
async fn g<D: FencedDatabase>(pool: D) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
