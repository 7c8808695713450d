//! An `Option` has no text.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
async fn f(id: Option<u64>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
