//! A mistake does not make `guard` unknown in the body.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", ttl = "10", guard = guard, token = token)]
async fn f(user_id: u64) -> Result<(), LockError> {
    guard.check()?;
    let _ = token.get();
    Ok(())
}

fn main() {}
