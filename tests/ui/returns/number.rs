//! A return type that cannot carry the error.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
async fn f() -> u64 {
    1
}

fn main() {}
