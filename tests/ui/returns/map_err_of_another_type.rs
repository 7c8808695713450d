//! `map_err` that returns another error.

use distlock::distributed_lock;

#[distributed_lock(key = "k", map_err = |error| error)]
async fn f() -> Result<(), String> {
    Ok(())
}

fn main() {}
