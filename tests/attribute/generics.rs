//! Type and constant parameters, lifetimes, bounds, `impl Trait`.

use std::fmt::{Debug, Display};

use distlock::{LockError, distributed_lock};

use crate::support::locked;

#[distributed_lock(key = "<id>")]
async fn bounded<T: Display + Debug, U>(id: T, other: U) -> Result<(String, U), LockError>
where
    U: Clone,
{
    Ok((format!("{id:?}"), other.clone()))
}

#[distributed_lock(key = "<N>")]
async fn constant<const N: usize>(array: [u8; N]) -> Result<usize, LockError> {
    Ok(array.len())
}

#[distributed_lock(key = "<id>")]
async fn borrowed<'a>(id: &u64, text: &'a str) -> Result<&'a str, LockError> {
    Ok(&text[..usize::try_from(*id).unwrap_or(0)])
}

#[distributed_lock(key = "<id>")]
async fn elided(id: u64, list: &mut Vec<u64>) -> Result<&mut u64, LockError> {
    list.push(id);
    list.last_mut().ok_or_else(|| LockError::busy("empty"))
}

#[distributed_lock(key = "<id>")]
async fn impl_argument(id: impl Display, f: impl FnOnce() -> u8) -> Result<u8, LockError> {
    Ok(f())
}

#[distributed_lock(key = "<id>")]
async fn dynamic(id: &(dyn Display + Sync), list: &[&dyn Display]) -> Result<usize, LockError> {
    Ok(list.len())
}

#[distributed_lock(key = "<id>", manager = distlock::LockManager::in_memory())]
fn sync_generic<'a, T: Display + ?Sized>(id: &'a T, list: &'a mut [u8]) -> Result<&'a mut u8, LockError> {
    list.first_mut().ok_or_else(|| LockError::busy("empty"))
}

struct Repository<'a, T> {
    rows: &'a [T],
}

impl<'a, T: Clone + Display> Repository<'a, T> {
    #[distributed_lock(key = "row:<index>")]
    async fn row(&self, index: usize) -> Result<&'a T, LockError> {
        self.rows.get(index).ok_or_else(|| LockError::busy("empty"))
    }
}

#[tokio::test]
async fn generic_functions() {
    locked(async {
        assert_eq!(bounded("a", vec![1]).await.unwrap(), ("\"a\"".to_owned(), vec![1]));
        assert_eq!(constant([1, 2, 3]).await.unwrap(), 3);
        assert_eq!(borrowed(&2, "abc").await.unwrap(), "ab");
        let mut list = vec![];
        *elided(4, &mut list).await.unwrap() += 1;
        assert_eq!(list, [5]);
        assert_eq!(impl_argument(1, || 2).await.unwrap(), 2);
        assert_eq!(dynamic(&1, &[&1, &2]).await.unwrap(), 2);
        let rows = ["a", "b"];
        let repository = Repository { rows: &rows };
        assert_eq!(*repository.row(1).await.unwrap(), "b");
    })
    .await;
}

#[test]
fn generic_functions_on_a_thread() {
    let mut list = [1, 2];
    *sync_generic("k", &mut list).unwrap() = 5;
    assert_eq!(list, [5, 2]);
}
