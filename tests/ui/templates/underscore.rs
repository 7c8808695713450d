//! `<_>`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<_>")]
async fn f(_: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
