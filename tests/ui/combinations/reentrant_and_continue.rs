//! `reentrant` with `on_lost = "continue"`: a thread may have both.

use distlock::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "k", reentrant = true, on_lost = "continue")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", reentrant = true, on_lost = "continue", manager = manager)]
fn on_a_thread(manager: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", reentrant = false, on_lost = "continue")]
async fn not_reentrant() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
