//! On a module.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
mod inner {}

fn main() {}
