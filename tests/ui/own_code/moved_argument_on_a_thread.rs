//! An argument used after it was moved, in a function that is not async.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
fn f(text: String) -> Result<String, LockError> {
    drop(text);
    Ok(text)
}

fn main() {}
