//! A literal in parentheses, in braces or put together is a template as well.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = [("a:<x>"), { "b:<x>" }, concat!("c:", "<x>")])]
async fn f(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
