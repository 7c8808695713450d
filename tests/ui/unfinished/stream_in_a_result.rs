//! A stream inside a `Result`, of an async function.

use distlock::{LockError, distributed_lock};
use futures_util::Stream;

#[distributed_lock(key = "k")]
async fn f() -> Result<impl Stream<Item = u8>, LockError> {
    Ok(futures_util::stream::iter([1]))
}

fn main() {}
