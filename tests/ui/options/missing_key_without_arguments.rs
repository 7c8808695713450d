//! Neither `key` nor `keys`, and nothing to suggest.

use distlock::{LockError, distributed_lock};

#[distributed_lock()]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
