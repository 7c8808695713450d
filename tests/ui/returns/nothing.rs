//! A function that returns nothing.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
async fn f() {}

fn main() {}
