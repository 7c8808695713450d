//! Mistakes of the options and of the function, all reported.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "<>", ttl = "0s", wiat = "1s", reentrant)]
const fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
