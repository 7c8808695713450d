//! A name that does not exist.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
async fn f() -> Result<u64, LockError> {
    Ok(answer)
}

fn main() {}
