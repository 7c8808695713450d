//! A future behind an `impl Trait` that does not name it.

use distlock::{LockError, distributed_lock};
#[distributed_lock(key = "k")]
async fn f() -> Result<impl Send, LockError> {
    Ok(async { 1 })
}

fn main() {}
