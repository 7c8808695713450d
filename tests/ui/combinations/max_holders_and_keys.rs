//! `max_holders` with `keys`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = ["a", "b"], max_holders = 2)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
