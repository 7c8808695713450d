//! A future that the caller passes in.

use distlock::{LockError, distributed_lock};
#[distributed_lock(key = "k")]
async fn f<F: Future<Output = u8>>(future: F) -> Result<F, LockError> {
    Ok(future)
}

fn main() {}
