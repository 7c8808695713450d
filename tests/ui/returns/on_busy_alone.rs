//! `on_busy` alone on a return type without an error.

use distlock::distributed_lock;

#[distributed_lock(key = "k", on_busy = None)]
async fn f() -> Option<u64> {
    None
}

fn main() {}
