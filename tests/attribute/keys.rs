//! `keys`: several locks at once.

use distlock::{LockError, LockManager, distributed_lock, is_held_here};

use crate::support::{is_busy, locked};

#[distributed_lock(keys = ["account:<from>", "account:<to>"], manager = manager)]
async fn transfer(manager: &LockManager, from: u64, to: u64) -> Result<bool, LockError> {
    tokio::task::yield_now().await;
    Ok(is_busy(manager, &format!("account:{from}")).await && is_busy(manager, &format!("account:{to}")).await)
}

#[distributed_lock(keys = ["account:<id>", format!("owner:{}", owner.trim())], wait = "0s", on_busy = Ok(false))]
async fn mixed(id: u64, owner: &str) -> Result<bool, LockError> {
    Ok(is_held_here("account:1") && is_held_here("owner:ann"))
}

#[distributed_lock(keys = ids.iter().map(|id| format!("account:{id}")), guard = guard)]
async fn iterator(ids: &[u64]) -> Result<Vec<String>, LockError> {
    Ok(guard.keys().map(str::to_owned).collect())
}

#[distributed_lock(keys = [first, second], manager = manager)]
fn on_a_thread(manager: &LockManager, first: &str, second: String) -> Result<bool, LockError> {
    Ok(is_held_here("a") && is_held_here("b") && second == "b")
}

async fn looked_up(name: &str) -> Result<String, LockError> {
    tokio::task::yield_now().await;
    Ok(format!("owner:{name}"))
}

#[distributed_lock(keys = ["account:<id>", looked_up(owner).await?, "last:<owner>"])]
async fn awaiting(id: u64, owner: &str) -> Result<bool, LockError> {
    Ok(is_held_here("account:1") && is_held_here("owner:ann") && is_held_here("last:ann"))
}

#[tokio::test]
async fn a_key_that_awaits_leaves_the_future_send() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    locked(async { assert!(assert_send(awaiting(1, "ann")).await.unwrap()) }).await;
}

#[tokio::test]
async fn all_are_held_and_all_are_released() {
    let manager = LockManager::in_memory();
    assert!(transfer(&manager, 1, 2).await.unwrap());
    assert!(!is_busy(&manager, "account:1").await);
    assert!(!is_busy(&manager, "account:2").await);
    locked(async {
        assert!(mixed(1, " ann ").await.unwrap());
        assert_eq!(iterator(&[3, 1, 3, 2]).await.unwrap(), ["account:1", "account:2", "account:3"]);
    })
    .await;
    assert!(on_a_thread(&manager, "a", "b".into()).unwrap());
}

#[tokio::test]
async fn one_that_is_busy_keeps_all_from_being_taken() {
    locked(async {
        let manager = LockManager::current().unwrap();
        let guard = manager.lock("owner:ann").acquire().await.unwrap();
        assert!(!mixed(1, "ann").await.unwrap());
        assert!(!is_busy(&manager, "account:1").await);
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_order_in_which_they_are_named_does_not_matter() {
    let manager = LockManager::in_memory();
    let there = async {
        for _ in 0..50 {
            transfer(&manager, 1, 2).await.unwrap();
        }
    };
    let back = async {
        for _ in 0..50 {
            transfer(&manager, 2, 1).await.unwrap();
        }
    };
    tokio::join!(there, back);
}

#[tokio::test]
async fn one_bad_key_is_an_error() {
    #[distributed_lock(keys = ["account:<id>", "<text>"])]
    async fn with_text(id: u64, text: &str) -> Result<(), LockError> {
        Ok(())
    }
    locked(async { assert!(matches!(with_text(1, "").await, Err(LockError::InvalidKey { .. }))) }).await;
}

/// Like `key`, if the type can be read twice.
#[distributed_lock(keys = ids, guard = guard, manager = manager)]
async fn a_collection_is_taken_by_reference(
    manager: &LockManager,
    ids: Vec<String>,
) -> Result<(usize, Vec<String>), LockError> {
    Ok((guard.keys().count(), ids))
}

#[distributed_lock(keys = ids, guard = guard, manager = manager)]
async fn an_iterator_is_used_up(
    manager: &LockManager,
    ids: impl Iterator<Item = String>,
) -> Result<usize, LockError> {
    Ok(guard.keys().count())
}

/// A method whose name begins with `into` takes its argument.
#[distributed_lock(keys = ids.into_iter().map(|id| id.trim().to_owned()), guard = guard, manager = manager)]
async fn a_collection_is_used_up(manager: &LockManager, _: u8, ids: Vec<String>) -> Result<usize, LockError> {
    Ok(guard.keys().count())
}

#[distributed_lock(key = id.into_boxed_str().into_string(), guard = guard, manager = manager)]
fn a_text_is_used_up(manager: &LockManager, id: String) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(keys = ids.into_iter(), guard = guard, manager = manager)]
fn a_collection_is_used_up_later(
    manager: LockManager,
    ids: Vec<String>,
) -> impl Future<Output = Result<usize, LockError>> {
    async move { Ok(guard.keys().count()) }
}

macro_rules! with_a_type_of_the_caller {
    ($ids:ident: $ty:ty) => {
        #[distributed_lock(keys = $ids, guard = guard)]
        async fn with_a_type_of_the_caller($ids: $ty) -> Result<usize, LockError> {
            Ok(guard.keys().count() + $ids.len())
        }
    };
}

with_a_type_of_the_caller!(ids: Vec<String>);

#[tokio::test]
async fn collections_and_iterators() {
    let manager = LockManager::in_memory();
    let ids = ["a", "b"].map(str::to_owned);
    let (count, kept) = a_collection_is_taken_by_reference(&manager, ids.to_vec()).await.unwrap();
    assert_eq!((count, kept), (2, ids.to_vec()));
    assert_eq!(an_iterator_is_used_up(&manager, ids.clone().into_iter()).await.unwrap(), 2);
    assert_eq!(a_collection_is_used_up(&manager, 1, ids.to_vec()).await.unwrap(), 2);
    assert_eq!(a_collection_is_used_up_later(manager.clone(), ids.to_vec()).await.unwrap(), 2);
    assert_eq!(a_text_is_used_up(&manager, "a".to_owned()).unwrap(), "a");
    locked(async { assert_eq!(with_a_type_of_the_caller(ids.to_vec()).await.unwrap(), 4) }).await;
}
