//! On a struct.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
pub struct S;

fn main() {}
