//! On a trait.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
pub trait T {}

fn main() {}
