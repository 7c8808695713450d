//! Two mistakes in one template.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "<usr_id>:<itm>")]
async fn f(user_id: u64, item: String) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
