//! A boxed future behind an alias.

use std::pin::Pin;

use distlock::distributed_lock;

type Fut = Pin<Box<dyn Future<Output = u8>>>;

#[distributed_lock(key = "k", on_error = |_| Box::pin(async { 0 }))]
fn f() -> Fut {
    Box::pin(async { 1 })
}

fn main() {}
