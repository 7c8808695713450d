//! An argument that cannot be displayed.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<ids>")]
async fn f(ids: Vec<u64>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
