//! Functions that call themselves.

use std::pin::Pin;

use distlock::{LockError, distributed_lock};

use crate::support::locked;

#[distributed_lock(key = "node:<depth>")]
async fn boxed(depth: u32) -> Result<u32, LockError> {
    if depth == 0 { Ok(0) } else { Ok(1 + Box::pin(boxed(depth - 1)).await?) }
}

#[distributed_lock(key = "node:<depth>")]
fn returned(depth: u32) -> Pin<Box<dyn Future<Output = Result<u32, LockError>> + Send>> {
    Box::pin(async move { if depth == 0 { Ok(0) } else { Ok(1 + returned(depth - 1).await?) } })
}

#[distributed_lock(key = "node", reentrant = true)]
async fn same_key(depth: u32) -> Result<u32, LockError> {
    if depth == 0 { Ok(0) } else { Ok(1 + Box::pin(same_key(depth - 1)).await?) }
}

#[tokio::test]
async fn recursion_with_a_key_per_level() {
    locked(async {
        assert_eq!(boxed(3).await.unwrap(), 3);
        assert_eq!(returned(3).await.unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn recursion_on_one_key_is_reentrant() {
    locked(async { assert_eq!(same_key(3).await.unwrap(), 3) }).await;
}
