//! An unknown name.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<basket>")]
async fn f(user_id: u64, amount: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
