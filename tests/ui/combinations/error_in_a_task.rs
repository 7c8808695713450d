//! `on_lost = "error"` on an async function.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", on_lost = "error")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
