//! A method call in a placeholder.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<user_id.to_string()>")]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
