//! A function that returns `()`.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
async fn f() -> () {}

fn main() {}
