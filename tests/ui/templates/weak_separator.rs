//! A separator that values can contain.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "<user_id>-<item>")]
async fn f(user_id: u64, item: String) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
