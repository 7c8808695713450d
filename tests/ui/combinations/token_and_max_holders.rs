//! `token` with `max_holders`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", token = token, max_holders = 3)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
