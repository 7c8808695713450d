//! A manager that is none.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", manager = text)]
async fn f(text: String) -> Result<String, LockError> {
    Ok(text)
}

fn main() {}
