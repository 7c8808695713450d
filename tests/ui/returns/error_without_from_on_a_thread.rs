//! The same on a thread.

use distlock::distributed_lock;

pub struct MyError;

#[distributed_lock(key = "k")]
fn f() -> Result<Vec<u64>, MyError> {
    Ok(vec![])
}

fn main() {}
