//! A `?` on an error of another type.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
async fn f() -> Result<u64, LockError> {
    let number = "1".parse::<u64>()?;
    Ok(number)
}

fn main() {}
