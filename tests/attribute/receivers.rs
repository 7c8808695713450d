//! Methods with every kind of receiver.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::locked;

struct Account {
    id: u64,
    points: u64,
    locks: LockManager,
}

impl Account {
    fn new() -> Self {
        Account { id: 1, points: 2, locks: LockManager::in_memory() }
    }

    #[distributed_lock(key = "account")]
    async fn associated(points: u64) -> Result<Self, LockError> {
        Ok(Account { points, ..Self::new() })
    }

    #[distributed_lock(key = "account:<self.id>")]
    async fn by_reference(&self) -> Result<&u64, LockError> {
        Ok(&self.points)
    }

    #[distributed_lock(key = "account:<self.id>")]
    async fn by_mutable_reference(&mut self, more: u64) -> Result<&mut u64, LockError> {
        self.points += more;
        Ok(&mut self.points)
    }

    #[distributed_lock(key = "account:<self.id>")]
    async fn by_value(mut self) -> Result<Self, LockError> {
        self.points += 1;
        Ok(self)
    }

    #[distributed_lock(key = "account:<self.id>")]
    async fn by_arc(self: Arc<Self>) -> Result<u64, LockError> {
        Ok(self.points)
    }

    #[distributed_lock(key = "account:<self.id>")]
    async fn by_box(self: Box<Self>) -> Result<Self, LockError> {
        Ok(*self)
    }

    #[distributed_lock(key = "account:<self.id>")]
    async fn by_rc_reference(self: &Rc<Self>) -> Result<u64, LockError> {
        Ok(self.points)
    }

    #[distributed_lock(key = "account:<self.id>")]
    async fn by_pin(self: Pin<&mut Self>) -> Result<u64, LockError> {
        let account = self.get_mut();
        account.points += 1;
        Ok(account.points)
    }

    #[distributed_lock(key = "account:<self.id>", manager = self.locks)]
    fn on_a_thread(&mut self) -> Result<&mut u64, LockError> {
        self.points += 1;
        Ok(&mut self.points)
    }

    #[distributed_lock(key = "account:<self.id>", manager = self.locks)]
    fn by_value_on_a_thread(self) -> Result<Self, LockError> {
        Ok(self)
    }
}

#[tokio::test]
async fn every_receiver() {
    locked(async {
        let mut account = Account::associated(5).await.unwrap();
        assert_eq!(*account.by_reference().await.unwrap(), 5);
        *account.by_mutable_reference(1).await.unwrap() += 1;
        assert_eq!(account.points, 7);
        let account = account.by_value().await.unwrap();
        let mut account = Box::new(account).by_box().await.unwrap();
        assert_eq!(Pin::new(&mut account).by_pin().await.unwrap(), 9);
        assert_eq!(Arc::new(account).by_arc().await.unwrap(), 9);
        assert_eq!(Rc::new(Account::new()).by_rc_reference().await.unwrap(), 2);
    })
    .await;
}

#[test]
fn every_receiver_on_a_thread() {
    let mut account = Account::new();
    *account.on_a_thread().unwrap() += 1;
    assert_eq!(account.by_value_on_a_thread().unwrap().points, 4);
}
