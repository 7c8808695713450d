//! Locks in memory that several managers share, in real time or on tokio's clock.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::backend::memory::MemoryStore;
use crate::manager::LockManager;
use distlock_store::clock::of_tokio::{self, Followed};

/// A store for a test, in memory. A test can create any number of managers on it. They share only the store, like
/// separate processes.
///
/// ```
/// use distlock::testing::TestStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// let store = TestStore::new();
/// let (one, other) = (store.process(), store.process());
/// let guard = one.lock("order:42").acquire().await?;
/// assert!(other.lock("order:42").try_acquire().await?.is_none());
/// let next = tokio::spawn(other.lock("order:42").acquire());
/// guard.release().await?; // handed to the other one
/// next.await.unwrap()?.release().await
/// # }
/// ```
#[must_use = "a store without a process is useless"]
pub struct TestStore {
    store: Arc<MemoryStore>,
    paused: Option<Paused>,
}

struct Paused {
    runtime: Handle,
    _clock: Followed,
}

impl TestStore {
    /// A store without locks.
    ///
    /// ```
    /// use distlock::testing::TestStore;
    ///
    /// let (staging, production) = (TestStore::new(), TestStore::new()); // they share nothing
    /// # drop((staging, production));
    /// ```
    #[expect(clippy::new_without_default, reason = "it is not a value, but a place")]
    pub fn new() -> Self {
        TestStore { store: LockManager::shared_memory(), paused: None }
    }

    /// A store on the clock of tokio, which a test can pause and advance. Waits, leases, renewals and pauses between
    /// attempts then take no time: if nothing else is to be done, the clock jumps to the next timer. To simulate a
    /// suspended process, advance the clock by more than a ttl.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::testing::TestStore;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// // In a test: #[tokio::test(start_paused = true)]
    /// let store = TestStore::on_paused_time();
    /// let (one, other) = (store.process(), store.process());
    /// let guard = one.lock("order:42").ttl(Duration::from_secs(30)).acquire().await?;
    ///
    /// // A wait of an hour, at once; meanwhile the lease was renewed hundreds of times.
    /// let wait = other.lock("order:42").wait(Duration::from_secs(3600));
    /// assert!(wait.acquire().await.unwrap_err().is_busy());
    /// assert!(guard.is_held());
    ///
    /// // The machine sleeps for longer than the lease lasts.
    /// tokio::time::advance(Duration::from_secs(31)).await;
    /// assert!(guard.check().unwrap_err().is_lost());
    /// # Ok(()) }
    /// ```
    ///
    /// The managers have no separate thread, but work in the runtime of the test. So use them only in that runtime, and
    /// only while this value lives, which should be until the end of the test. Do not use them with
    /// [`blocking`](crate::blocking), which stops the runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime of one thread (`#[tokio::test]` creates one).
    pub fn on_paused_time() -> Self {
        let runtime = Handle::try_current().ok();
        let runtime = runtime.filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread);
        let Some(runtime) = runtime else {
            panic!("paused time is that of a tokio runtime of one thread: call this inside `#[tokio::test]`");
        };
        let paused = Paused { runtime, _clock: of_tokio::follow() };
        TestStore { store: LockManager::shared_memory(), paused: Some(paused) }
    }

    /// A manager, like in another process: with its own name, queue and leases.
    ///
    /// ```
    /// use distlock::testing::TestStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let store = TestStore::new();
    /// let (one, other) = (store.process(), store.process());
    /// let guard = one.lock("order:42").acquire().await?;
    /// let seen = other.inspect("order:42").await?.expect("it is held");
    /// assert_eq!(seen.holder, guard.owner());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn process(&self) -> LockManager {
        let runtime = self.paused.as_ref().map(|paused| paused.runtime.clone());
        LockManager::of_shared_memory(self.store.clone(), runtime)
    }
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStore").field("paused", &self.paused.is_some()).finish_non_exhaustive()
    }
}
