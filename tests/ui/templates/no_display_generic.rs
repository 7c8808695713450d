//! A type parameter without `Display`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
async fn f<T>(id: T) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
