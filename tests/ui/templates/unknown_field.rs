//! A field that does not exist.

use distlock::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:<order.number>")]
async fn f(order: &Order) -> Result<u64, LockError> {
    Ok(order.id)
}

fn main() {}
