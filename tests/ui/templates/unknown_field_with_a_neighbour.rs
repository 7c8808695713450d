//! A field with a similar name: what the compiler suggests leaves the template alone.

use distlock::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:<order.idd>")]
async fn f(order: &Order) -> Result<u64, LockError> {
    Ok(order.id)
}

fn main() {}
