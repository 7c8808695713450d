//! A value that is not a manager.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", manager = text)]
async fn f(text: String) -> Result<String, LockError> {
    Ok(text)
}

fn main() {}
