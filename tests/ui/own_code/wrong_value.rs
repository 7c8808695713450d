//! A body of another type.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
async fn f() -> Result<u64, LockError> {
    let answer = 42;
    answer
}

fn main() {}
