//! A pool that a function cannot use without `.await`.

use distlock::{LockError, distributed_lock};

struct Pool;

#[distributed_lock(key = "k", transaction = tx in pool)]
fn f(pool: Pool) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
