//! An iterator of futures.

use distlock::{LockError, distributed_lock};
#[distributed_lock(key = "k")]
async fn f() -> Result<impl Iterator<Item = impl Future<Output = u8>>, LockError> {
    Ok([1].into_iter().map(std::future::ready))
}

fn main() {}
