//! A condition that is not a `bool`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", when = text)]
async fn f(text: String) -> Result<String, LockError> {
    Ok(text)
}

fn main() {}
