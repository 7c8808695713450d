//! A returned future whose output cannot carry the error.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
fn f() -> impl Future<Output = u64> {
    async move { 1 }
}

fn main() {}
