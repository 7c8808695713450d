//! A type that can be awaited.

use distlock::{LockError, distributed_lock};
#[distributed_lock(key = "k")]
async fn f() -> Result<tokio::sync::oneshot::Receiver<u8>, LockError> {
    Ok(tokio::sync::oneshot::channel().1)
}

fn main() {}
