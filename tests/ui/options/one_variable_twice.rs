//! Options bind variables of the same name.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order", guard = lock, token = lock)]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
