//! A stream inside a type of another crate, as in a response with events.

use distlock::{LockError, distributed_lock};
use futures_util::Stream;

struct Sse<S>(S);

#[distributed_lock(key = "k")]
async fn f() -> Result<Sse<impl Stream<Item = u8>>, LockError> {
    Ok(Sse(futures_util::stream::iter([1])))
}

fn main() {}
