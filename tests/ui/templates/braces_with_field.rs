//! Braces around a field.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:{order.id}")]
async fn f(order: (u64, u64)) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
