//! A returned future that does not end in an `async` block.

use distlock::{LockError, distributed_lock};

async fn work() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k")]
fn f() -> impl Future<Output = Result<(), LockError>> {
    work()
}

fn main() {}
