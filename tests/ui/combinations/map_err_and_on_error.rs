//! `map_err` with `on_error`.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", map_err = |error| error, on_error = |error| Err(error))]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
