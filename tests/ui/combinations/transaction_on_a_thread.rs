//! `transaction` on a function that is not async.

use distlock::fence::FencedDatabase;
use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", transaction = tx in pool)]
fn f<D: FencedDatabase>(pool: D) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
