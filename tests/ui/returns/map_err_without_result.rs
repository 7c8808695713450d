//! `map_err` without a `Result`.

use distlock::distributed_lock;

#[distributed_lock(key = "k", map_err = |error| error)]
async fn f() {}

fn main() {}
