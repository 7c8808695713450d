//! A boxed future inside a `Result`.

use distlock::{LockError, distributed_lock};
use std::pin::Pin;

#[distributed_lock(key = "k")]
fn f() -> Result<Pin<Box<dyn Future<Output = u8>>>, LockError> {
    Ok(Box::pin(async { 1 }))
}

fn main() {}
