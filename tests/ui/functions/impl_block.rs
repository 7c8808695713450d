//! On an `impl` block.

use distlock::distributed_lock;

pub struct S;

#[distributed_lock(key = "k")]
impl S {}

fn main() {}
