//! An alias of a `Result` of a future.

use distlock::{LockError, distributed_lock};
use std::pin::Pin;

type Answer = Result<Option<Pin<Box<dyn Future<Output = u8>>>>, LockError>;

#[distributed_lock(key = "k")]
fn f() -> Answer {
    Ok(Some(Box::pin(async { 1 })))
}

fn main() {}
