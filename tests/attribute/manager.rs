//! The manager that a function uses.

use std::sync::{Arc, LazyLock};

use distlock::{LockError, LockManager, distributed_lock, with_manager};

use crate::support::{assert_held, is_busy};

static STATIC: LazyLock<LockManager> = LazyLock::new(LockManager::in_memory);

struct Service {
    locks: LockManager,
    shared: Arc<LockManager>,
    state: u8,
}

impl Service {
    fn pick(&self) -> &LockManager {
        &self.locks
    }

    #[distributed_lock(key = "field", manager = self.locks)]
    async fn field(&mut self) -> Result<bool, LockError> {
        self.state += 1;
        Ok(is_busy(&self.locks, "field").await)
    }

    #[distributed_lock(key = "shared", manager = self.shared)]
    async fn shared(self: Arc<Self>) -> Result<bool, LockError> {
        Ok(is_busy(&self.shared, "shared").await)
    }

    #[distributed_lock(key = "method", manager = self.pick())]
    async fn method(&self) -> Result<bool, LockError> {
        Ok(is_busy(&self.locks, "method").await)
    }

    #[distributed_lock(key = "by_value", manager = self.locks.clone())]
    async fn by_value(self) -> Result<bool, LockError> {
        Ok(is_busy(&self.locks, "by_value").await)
    }
}

#[distributed_lock(key = "static", manager = STATIC)]
async fn of_a_static() -> Result<bool, LockError> {
    Ok(is_busy(&STATIC, "static").await)
}

#[distributed_lock(key = "argument", manager = locks)]
async fn of_an_argument(locks: &LockManager) -> Result<bool, LockError> {
    Ok(is_busy(locks, "argument").await)
}

#[distributed_lock(key = "fallible", manager = LockManager::current()?)]
async fn fallible() -> Result<bool, LockError> {
    Ok(true)
}

#[distributed_lock(key = "scope")]
async fn of_the_scope() -> Result<(), LockError> {
    assert_held("scope").await;
    Ok(())
}

#[tokio::test]
async fn every_kind_of_manager_expression() {
    let locks = LockManager::in_memory();
    let mut service = Service { locks: locks.clone(), shared: Arc::new(locks.clone()), state: 0 };
    assert!(service.field().await.unwrap());
    assert!(service.method().await.unwrap());
    let service = Arc::new(service);
    assert!(service.clone().shared().await.unwrap());
    assert!(Arc::into_inner(service).unwrap().by_value().await.unwrap());
    assert!(of_a_static().await.unwrap());
    assert!(of_an_argument(&locks).await.unwrap());
}

#[tokio::test]
async fn without_a_manager_nothing_runs() {
    assert!(matches!(of_the_scope().await, Err(LockError::NotInitialized)));
    assert!(matches!(fallible().await, Err(LockError::NotInitialized)));
}

#[tokio::test]
async fn the_innermost_scope_counts() {
    let (outer, inner) = (LockManager::in_memory(), LockManager::in_memory());
    with_manager(outer.clone(), async {
        let guard = outer.lock("scope").acquire().await.unwrap();
        with_manager(inner, of_the_scope()).await.unwrap();
        guard.release().await.unwrap();
        of_the_scope().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_manager_that_was_shut_down_is_closed() {
    let locks = LockManager::in_memory();
    locks.shutdown(std::time::Duration::ZERO).await;
    assert!(matches!(of_an_argument(&locks).await, Err(LockError::Closed)));
}
