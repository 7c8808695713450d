//! The label of a lock, as it was called once: it works, and the compiler warns.

#![deny(deprecated)]

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", name = "order")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
