//! An error type without `From<LockError>`.

use distlock::distributed_lock;

pub struct MyError;

#[distributed_lock(key = "k")]
async fn f() -> Result<Vec<u64>, MyError> {
    Ok(vec![])
}

fn main() {}
