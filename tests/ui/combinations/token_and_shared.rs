//! `token` with `mode = "shared"`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", token = token, mode = "shared")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
