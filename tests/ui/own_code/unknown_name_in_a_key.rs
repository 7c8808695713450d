//! A name that does not exist, in a key expression.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = order_id)]
async fn f(user_id: u64) -> Result<u64, LockError> {
    Ok(user_id)
}

#[distributed_lock(key = "order:" + user_id)]
async fn g(user_id: u64) -> Result<u64, LockError> {
    Ok(user_id)
}

fn main() {}
