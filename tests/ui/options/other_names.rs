//! Names of other libraries that resemble an option.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", lock_timeout = "1s", lease = "1s")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
