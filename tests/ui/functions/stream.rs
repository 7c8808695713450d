//! A function that returns a stream.

use distlock::distributed_lock;

trait Stream {
    type Item;
}

impl Stream for u8 {
    type Item = u8;
}

#[distributed_lock(key = "k")]
fn f() -> impl Stream<Item = u8> {
    1u8
}

fn main() {}
