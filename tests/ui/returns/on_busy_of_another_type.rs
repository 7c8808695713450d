//! `on_busy` of another type.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", on_busy = None)]
async fn f() -> Result<u64, LockError> {
    Ok(1)
}

fn main() {}
