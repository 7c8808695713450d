//! Traits and their impls, with native async functions.

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{assert_held, locked};

trait Shop {
    fn id(&self) -> u64;

    #[distributed_lock(key = "shop:<self_id>")]
    async fn default_method(&self, self_id: u64) -> Result<u64, LockError> {
        assert_held("shop:1").await;
        Ok(self.id() + self_id)
    }

    #[distributed_lock(key = format!("shop:{}", self.id()), manager = LockManager::in_memory())]
    fn default_on_a_thread(&self) -> Result<u64, LockError> {
        Ok(self.id())
    }

    async fn order(&mut self, item: &str) -> Result<&str, LockError>;

    fn returned(&self, item: u64) -> impl Future<Output = Result<u64, LockError>> + Send;
}

struct Corner {
    id: u64,
    last: String,
}

impl Shop for Corner {
    fn id(&self) -> u64 {
        self.id
    }

    #[distributed_lock(key = "shop:<self.id>:<item>")]
    async fn order(&mut self, item: &str) -> Result<&str, LockError> {
        assert_held("shop:1:tea").await;
        self.last = item.to_owned();
        Ok(&self.last)
    }

    #[distributed_lock(key = "shop:<self.id>:<item>")]
    fn returned(&self, item: u64) -> impl Future<Output = Result<u64, LockError>> + Send {
        async move { Ok(item + self.id) }
    }
}

#[tokio::test]
async fn default_methods_and_impls() {
    locked(async {
        let mut shop = Corner { id: 1, last: String::new() };
        assert_eq!(shop.default_method(1).await.unwrap(), 2);
        assert_eq!(shop.default_on_a_thread().unwrap(), 1);
        assert_eq!(shop.order("tea").await.unwrap(), "tea");
        assert_eq!(shop.returned(2).await.unwrap(), 3);
    })
    .await;
}
