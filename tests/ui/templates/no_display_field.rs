//! A field that cannot be displayed.

use distlock::{LockError, distributed_lock};

struct Order {
    items: Vec<u64>,
}

#[distributed_lock(key = "order:<order.items>")]
async fn f(order: &Order) -> Result<usize, LockError> {
    Ok(order.items.len())
}

fn main() {}
