//! `transaction` on a function that does not return a `Result`.

use distlock::distributed_lock;
use distlock::fence::FencedDatabase;

#[distributed_lock(key = "k", transaction = tx in pool, on_error = |_| 0)]
async fn f<D: FencedDatabase>(pool: D) -> u64 {
    1
}

fn main() {}
