//! A `return` of another type.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
async fn f(early: bool) -> Result<u64, LockError> {
    if early {
        return 1;
    }
    Ok(2)
}

fn main() {}
