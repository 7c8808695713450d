//! A transaction that the caller commits, after the release.

use distlock::fence::FencedDatabase;
use distlock::{LockError, distributed_lock};

struct Transaction;

#[distributed_lock(key = "k", transaction = tx in pool)]
async fn f<D: FencedDatabase>(pool: D, outer: &mut Transaction) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
