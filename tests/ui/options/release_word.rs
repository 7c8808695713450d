//! An unknown way to release.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", release = "async")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
