//! `map_err` on an `Option`.

use distlock::distributed_lock;

#[distributed_lock(key = "k", map_err = |error| error)]
async fn f() -> Option<u64> {
    None
}

fn main() {}
