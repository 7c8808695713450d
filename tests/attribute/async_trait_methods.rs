//! `#[async_trait]`, which expands first, so that the attribute gets a function that returns a boxed future.

use std::rc::Rc;

use async_trait::async_trait;
use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{Log, is_busy};

struct Path<T>(T);

#[async_trait]
trait Service: Send + Sync {
    async fn plain(&self, id: u64, text: &str) -> Result<String, LockError>;
    async fn by_value(self, Path((id, _)): Path<(u64, Witness)>) -> Result<u64, LockError>
    where
        Self: Sized;
    async fn by_mutable_reference(&mut self, mut list: Vec<u64>) -> Result<&u64, LockError>;
    async fn nothing(&self, id: u64);
    async fn generic<T: std::fmt::Display + Send + Sync>(&self, id: T) -> anyhow::Result<String>
    where
        Self: Sized;

    #[distributed_lock(key = "default:<id>", manager = self.locks())]
    async fn default_method(&self, id: u64) -> Result<bool, LockError> {
        Ok(is_busy(&self.locks(), &format!("default:{id}")).await)
    }

    fn locks(&self) -> LockManager;
}

struct Shop {
    id: u64,
    locks: LockManager,
}

struct Witness(Log);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

#[async_trait]
impl Service for Shop {
    #[distributed_lock(key = "<self.id>:<id>:<text>", manager = self.locks, guard = guard, token = token)]
    async fn plain(&self, id: u64, text: &str) -> Result<String, LockError> {
        let more: u8 = "1".parse().map_err(|_| LockError::busy("k"))?;
        assert!(is_busy(&self.locks, guard.key()).await);
        assert_eq!(guard.fencing_token(), Some(token));
        Ok(format!("{} {more}", guard.key()))
    }

    #[distributed_lock(key = "k:<id>", manager = self.locks)]
    async fn by_value(self, Path((id, _)): Path<(u64, Witness)>) -> Result<u64, LockError> {
        Ok(id + self.id)
    }

    #[distributed_lock(key = "k:<self.id>", manager = self.locks, on_busy = Err(LockError::busy("other")))]
    async fn by_mutable_reference(&mut self, mut list: Vec<u64>) -> Result<&u64, LockError> {
        list.push(1);
        self.id += list.iter().sum::<u64>();
        Ok(&self.id)
    }

    #[distributed_lock(key = "k:<id>", manager = self.locks, on_error = |error| panic!("{error}"))]
    async fn nothing(&self, id: u64) {
        assert!(is_busy(&self.locks, "k:7").await);
    }

    #[distributed_lock(key = "k:<id>", manager = self.locks())]
    async fn generic<T: std::fmt::Display + Send + Sync>(&self, id: T) -> anyhow::Result<String> {
        Ok(id.to_string())
    }

    fn locks(&self) -> LockManager {
        self.locks.clone()
    }
}

#[async_trait(?Send)]
trait Local {
    async fn local(&self, value: Rc<u64>) -> Result<u64, LockError>;
}

#[async_trait(?Send)]
impl Local for Shop {
    #[distributed_lock(key = "k:<value>", manager = self.locks)]
    async fn local(&self, value: Rc<u64>) -> Result<u64, LockError> {
        tokio::task::yield_now().await;
        Ok(*value)
    }
}

#[tokio::test]
async fn methods_of_an_async_trait() {
    let locks = LockManager::in_memory();
    let mut shop = Shop { id: 1, locks: locks.clone() };
    assert_eq!(shop.plain(2, "a:b").await.unwrap(), "1:2:a%3Ab 1");
    assert_eq!(*shop.by_mutable_reference(vec![2, 3]).await.unwrap(), 7);
    shop.nothing(7).await;
    assert_eq!(shop.generic(2).await.unwrap(), "2");
    assert!(shop.default_method(3).await.unwrap());
    assert_eq!(shop.local(Rc::new(5)).await.unwrap(), 5);
    let as_object: Box<dyn Local> = Box::new(Shop { id: 1, locks: locks.clone() });
    assert_eq!(as_object.local(Rc::new(5)).await.unwrap(), 5);
    let log = Log::default();
    assert_eq!(shop.by_value(Path((1, Witness(log.clone())))).await.unwrap(), 8);
    assert_eq!(log.entries().len(), 1);
}
