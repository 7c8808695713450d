//! What `transaction` commits has to be an `Ok`.

use distlock::distributed_lock;
use distlock::fence::FencedDatabase;

#[distributed_lock(key = "k", transaction = tx in pool, on_error = |_| 0)]
async fn f<D: FencedDatabase>(pool: D) -> u64 {
    1
}

fn main() {}
