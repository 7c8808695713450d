//! `on_error` that returns another type.

use distlock::distributed_lock;

#[distributed_lock(key = "k", on_error = |error| error)]
async fn f() -> String {
    String::new()
}

fn main() {}
