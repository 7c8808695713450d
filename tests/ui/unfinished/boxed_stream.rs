//! A boxed stream inside an `Option` inside a `Result`.

use distlock::{LockError, distributed_lock};
use futures_util::stream::BoxStream;

#[distributed_lock(key = "k")]
async fn f() -> Result<Option<BoxStream<'static, u8>>, LockError> {
    Ok(None)
}

fn main() {}
