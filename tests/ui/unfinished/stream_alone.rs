//! A stream, of an async function.

use distlock::distributed_lock;
use futures_util::Stream;

#[distributed_lock(key = "k", on_error = |_| futures_util::stream::iter([0]))]
async fn f() -> impl Stream<Item = u8> {
    futures_util::stream::iter([1])
}

fn main() {}
