//! `<self.x>` in a function without a receiver.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<self.id>")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
