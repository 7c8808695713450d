//! Arguments after the template, as for `format!`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:{}:{}", user_id, order_id, ttl = "10s")]
async fn f(user_id: u64, order_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
