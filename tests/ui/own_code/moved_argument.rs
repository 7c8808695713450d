//! An argument used after it was moved.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
async fn f(text: String) -> Result<String, LockError> {
    drop(text);
    Ok(text)
}

fn main() {}
