//! A body without a value.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
async fn f() -> Result<u64, LockError> {
    let _answer = 42;
}

fn main() {}
