//! An unknown reaction.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", on_lost = "abort")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
