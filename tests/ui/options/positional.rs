//! A template without a name.

use distlock::{LockError, distributed_lock};

#[distributed_lock("order:<user_id>")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
