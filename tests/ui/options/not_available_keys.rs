//! An option of a later version.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = ["a:<user_id>", "b:<user_id>"])]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
