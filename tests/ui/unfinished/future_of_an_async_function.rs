//! A future as the value of an async function.

use distlock::{LockError, distributed_lock};
#[distributed_lock(key = "k", on_error = |_| std::future::ready(0))]
async fn f() -> impl Future<Output = u8> {
    std::future::ready(1)
}

#[distributed_lock(key = "k")]
async fn g() -> Result<std::future::Ready<u8>, LockError> {
    Ok(std::future::ready(1))
}

fn main() {}
