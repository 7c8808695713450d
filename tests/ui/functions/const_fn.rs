//! On a `const fn`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
const fn f() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
