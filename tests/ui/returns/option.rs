//! An `Option` cannot carry the error.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
async fn f() -> Option<u64> {
    None
}

fn main() {}
