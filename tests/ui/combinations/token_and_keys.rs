//! `token` with `keys`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = ["a", "b"], token = token)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
