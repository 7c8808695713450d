//! Functions that are not `async` but return a future.

use std::future::Future;
use std::pin::Pin;

use distlock::{LockError, LockManager, distributed_lock};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, LocalBoxFuture};

use crate::support::{Log, assert_held, locked};

#[distributed_lock(key = "k:<id>")]
fn opaque(id: u64) -> impl Future<Output = Result<u64, LockError>> + Send {
    async move {
        assert_held("k:1").await;
        Ok(id)
    }
}

#[distributed_lock(key = "k:<id>")]
fn pinned<'a>(id: &'a u64) -> Pin<Box<dyn Future<Output = Result<&'a u64, LockError>> + Send + 'a>> {
    Box::pin(async move {
        assert_held("k:1").await;
        Ok(id)
    })
}

#[distributed_lock(key = "k:<id>")]
fn alias(id: u64) -> BoxFuture<'static, Result<u64, LockError>> {
    async move { Ok(id) }.boxed()
}

#[distributed_lock(key = "k:<id>")]
fn local(id: std::rc::Rc<u64>) -> LocalBoxFuture<'static, Result<u64, LockError>> {
    async move { Ok(*id) }.boxed_local()
}

#[distributed_lock(key = "k:<doubled>:<id>", on_error = |error| error.to_string())]
fn after_statements(id: u64, doubled: String) -> impl Future<Output = String> {
    let more = id + 1;
    async move {
        if more == 0 {
            return "early".to_owned();
        }
        format!("{more} {doubled}")
    }
}

#[distributed_lock(key = "k", manager = manager)]
fn lazily(manager: &LockManager, log: Log) -> impl Future<Output = Result<(), LockError>> {
    log.add("called");
    async move {
        log.add("polled");
        Ok(())
    }
}

type Text = Box<dyn std::fmt::Display>;

#[distributed_lock(key = "k")]
fn coerced(early: bool) -> Pin<Box<dyn Future<Output = Result<Text, LockError>>>> {
    Box::pin(async move {
        if early {
            return Ok(Box::new(1));
        }
        let _: u8 = "1".parse().map_err(|_| LockError::busy("k"))?;
        Ok(Box::new("x"))
    })
}

struct Order {
    id: u64,
}

#[distributed_lock(key = "node:<id>", guard = guard)]
fn with_a_new_variable_in_the_block(id: u64, parent: u64) -> BoxFuture<'static, Result<String, LockError>> {
    Box::pin(async move {
        let id = parent;
        Ok(format!("{id} {}", guard.key()))
    })
}

#[distributed_lock(key = "order:<order.id>", guard = guard)]
fn moved_in_the_block(order: Order) -> BoxFuture<'static, Result<String, LockError>> {
    Box::pin(async move {
        let moved = order;
        Ok(format!("{} {}", moved.id, guard.key()))
    })
}

/// What `#[async_trait]` writes at the beginning of its block is not taken for it elsewhere.
#[tokio::test]
async fn variables_of_the_block_do_not_change_the_key() {
    locked(async {
        assert_eq!(with_a_new_variable_in_the_block(1, 2).await.unwrap(), "2 node:1");
        assert_eq!(moved_in_the_block(Order { id: 3 }).await.unwrap(), "3 order:3");
    })
    .await;
}

#[tokio::test]
async fn the_async_block_at_the_end_is_locked() {
    locked(async {
        assert_eq!(opaque(1).await.unwrap(), 1);
        assert_eq!(*pinned(&1).await.unwrap(), 1);
        assert_eq!(alias(1).await.unwrap(), 1);
        assert_eq!(local(1.into()).await.unwrap(), 1);
        assert_eq!(after_statements(1, "x".into()).await, "2 x");
        assert_eq!(coerced(true).await.unwrap().to_string(), "1");
        assert_eq!(coerced(false).await.unwrap().to_string(), "x");
    })
    .await;
}

#[tokio::test]
async fn statements_in_front_run_at_the_call() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    let guard = manager.lock("k").acquire().await.unwrap();
    let call = lazily(&manager, log.clone());
    assert_eq!(log.entries(), ["called"]);
    guard.release().await.unwrap();
    call.await.unwrap();
    assert_eq!(log.entries(), ["called", "polled"]);
}
