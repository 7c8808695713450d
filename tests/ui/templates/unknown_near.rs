//! An unknown name that is close to a known one.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<usr_id>:cart")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
