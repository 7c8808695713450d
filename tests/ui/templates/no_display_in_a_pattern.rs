//! A name in a pattern that cannot be displayed.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<ids>")]
async fn f((ids, _): (Vec<u64>, u8)) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
