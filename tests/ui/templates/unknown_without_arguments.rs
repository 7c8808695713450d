//! A placeholder in a function without arguments.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<user_id>")]
async fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
