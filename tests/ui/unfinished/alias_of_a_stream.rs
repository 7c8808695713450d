//! A stream behind an alias.

use distlock::{LockError, distributed_lock};
use std::pin::Pin;

use futures_util::Stream;

type Events = Pin<Box<dyn Stream<Item = u8> + Send>>;

#[distributed_lock(key = "k")]
async fn f() -> Result<Events, LockError> {
    Ok(Box::pin(futures_util::stream::iter([1])))
}

fn main() {}
