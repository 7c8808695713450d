//! Annotated functions in a crate of the edition 2021. There, a temporary value at the end of a block lives until the
//! end of the statement around it, so it might be borrowed for too long, or become part of a future. That this compiles
//! is most of the test.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use distlock::{blocking, distributed_lock, LockError, LockManager};

/// Expressions with temporary values, among them the guard of a mutex.
#[derive(Debug)]
pub struct Shop {
    /// The manager of the methods.
    pub locks: LockManager,
    /// The key of the methods.
    pub name: Mutex<String>,
}

impl Shop {
    fn key(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(self.key().len() as u64)
    }

    /// A manager, a key and an option that are expressions.
    #[distributed_lock(manager = self.locks, key = self.key(), ttl = self.ttl())]
    pub async fn expressions(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    /// Several keys, and what happens when one of them is busy.
    #[distributed_lock(manager = self.locks.clone(), keys = ["id:<id>", self.key()], wait = "0s", on_busy = Ok(0))]
    pub async fn several(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    /// The body borrows the lock.
    #[distributed_lock(manager = self.locks, key = self.key(), guard = held, ttl = self.ttl())]
    pub async fn guarded(&self, id: u64) -> Result<u64, LockError> {
        held.check()?;
        Ok(id)
    }

    /// Locked only for some arguments.
    #[distributed_lock(manager = self.locks, key = "id:<id>", when = id > 3, ttl = self.ttl())]
    pub async fn conditional(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    /// On a thread.
    #[distributed_lock(manager = self.locks, key = self.key(), when = id > 3)]
    pub fn on_a_thread(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn text(id: u64) -> Result<String, LockError> {
    Ok(id.to_string())
}

/// A key that may leave the function.
#[distributed_lock(key = text(id)?, ttl = "1s")]
pub async fn fallible(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

/// An iterator of keys, and another type of errors.
#[distributed_lock(keys = ids.iter().map(|id| id.to_string()), map_err = |error| error.to_string())]
pub async fn iterated(ids: Vec<u64>) -> Result<usize, String> {
    Ok(ids.len())
}

/// A future that is returned.
#[distributed_lock(key = "id:<id>")]
pub fn returned(id: u64, mut names: Vec<String>) -> impl Future<Output = Result<u64, LockError>> + Send {
    async move {
        names.clear();
        Ok(id)
    }
}

/// The names of dropped values.
pub type Log = Mutex<Vec<&'static str>>;

/// Records its name when it is dropped.
#[derive(Debug)]
pub struct Part<'a>(&'static str, &'a Log);

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

impl Part<'_> {
    fn value(&self) -> Result<u64, LockError> {
        Ok(self.0.len() as u64)
    }
}

macro_rules! with_temporaries {
    ($($(#[$attribute:meta])* ($($start:tt)*) $name:ident;)*) => {$(
        /// A temporary value at the end of the body, which drops after the variables of the body.
        $(#[$attribute])*
        pub $($start)* $name(log: &Log) -> Result<u64, LockError> {
            let _variable = Part("variable", log);
            Part("temporary", log).value()
        }
    )*};
}

with_temporaries! {
    (async fn) plain_temporaries;
    #[distributed_lock(key = "k")]
    (async fn) temporaries;
    #[distributed_lock(key = "k", guard = _guard, on_busy = Ok(0))]
    (async fn) temporaries_with_a_guard;
    #[distributed_lock(key = "k", manager = LockManager::in_memory())]
    (fn) temporaries_on_a_thread;
}

/// The same in a block that is returned.
#[distributed_lock(key = "k")]
pub fn temporaries_in_a_block(log: &Log) -> impl Future<Output = Result<u64, LockError>> + '_ {
    async move {
        let _variable = Part("variable", log);
        Part("temporary", log).value()
    }
}

/// A manager of threads.
#[distributed_lock(manager = manager, key = "id:<id>")]
pub fn with_blocking_manager(manager: &blocking::LockManager, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent<T: Send>(future: T) -> T {
        future
    }

    #[tokio::test]
    async fn each_form_returns_what_its_body_does() -> Result<(), LockError> {
        let locks = LockManager::in_memory();
        let shop = Shop { locks: locks.clone(), name: Mutex::new("shop".to_owned()) };
        let in_scope = async {
            assert_eq!(sent(fallible(1)).await?, 1);
            assert_eq!(sent(iterated(vec![1, 2])).await.ok(), Some(2));
            assert_eq!(sent(returned(1, Vec::new())).await?, 1);
            Ok::<_, LockError>(())
        };
        distlock::with_manager(locks.clone(), in_scope).await?;
        assert_eq!(sent(shop.expressions(1)).await?, 1);
        assert_eq!(sent(shop.several(1)).await?, 1);
        assert_eq!(sent(shop.guarded(1)).await?, 1);
        assert_eq!(sent(shop.conditional(1)).await?, 1);
        let held = locks.lock("shop").acquire().await?;
        assert_eq!(shop.several(1).await?, 0);
        held.release().await?;
        Ok(())
    }

    #[tokio::test]
    async fn temporaries_drop_as_without_the_attribute() -> Result<(), LockError> {
        let expected = Log::default();
        plain_temporaries(&expected).await?;
        assert_eq!(expected.lock().ok().as_deref(), Some(&vec!["variable", "temporary"]));
        let logs: [Log; 4] = Default::default();
        let calls = async {
            temporaries(&logs[0]).await?;
            temporaries_with_a_guard(&logs[1]).await?;
            temporaries_in_a_block(&logs[2]).await
        };
        distlock::with_manager(LockManager::in_memory(), calls).await?;
        temporaries_on_a_thread(&logs[3])?;
        for log in logs {
            assert_eq!(log.into_inner().ok(), expected.lock().ok().as_deref().cloned());
        }
        Ok(())
    }

    #[test]
    fn each_form_on_a_thread_returns_what_its_body_does() -> Result<(), LockError> {
        let locks = LockManager::in_memory();
        let shop = Shop { locks, name: Mutex::new("shop".to_owned()) };
        assert_eq!(shop.on_a_thread(5)?, 5);
        assert_eq!(with_blocking_manager(&blocking::LockManager::in_memory(), 1)?, 1);
        Ok(())
    }
}
