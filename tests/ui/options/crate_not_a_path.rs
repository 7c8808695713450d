//! Not a path.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", crate = "distlock")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
