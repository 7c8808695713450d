//! A function that returns nothing, with `on_busy`.

use distlock::distributed_lock;

#[distributed_lock(key = "k", on_busy = ())]
async fn f() {}

fn main() {}
