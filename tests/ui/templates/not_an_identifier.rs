//! A number instead of a name.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<1st>")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
