//! A value in a function that returns nothing.

use distlock::distributed_lock;

#[distributed_lock(key = "k", on_error = |_| ())]
async fn f() {
    42
}

fn main() {}
