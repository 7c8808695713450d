//! Managers whose locks are in this process's memory.

use std::sync::Arc;
use std::time::Duration;

use super::{LockManager, LockManagerBuilder, connecting};
use crate::backend::Tuning;
use crate::backend::memory::{Memory, MemoryStore};
use crate::driver::{Alive, Core};
use crate::error::LockError;
use crate::manager_handle::{Defaults, ManagerHandle};
#[cfg(test)]
use crate::observe::Observer;
use crate::observe::Observers;

impl LockManager {
    /// Locks in the memory of this process, separate from the locks of every other manager. For development, unit
    /// tests, and programs of a single process.
    ///
    /// These locks use real time. Acquiring a free lock and handing it on need no timer and no other thread, so they
    /// work under a paused clock (`#[tokio::test(start_paused = true)]`, `tokio::time::pause`). But a `wait`, a ttl and
    /// renewal use the suspend-proof clock of the operating system, on the manager's own thread. A lease with a clock
    /// that a test can stop would not be the lease that the program relies on, and tokio does not notify other threads
    /// when it skips time. A test that waits for a busy lock takes as long as its `wait`, so choose a short one, such
    /// as `wait(Duration::from_millis(20))`. Under a paused clock, a `tokio::time::timeout` around the wait fires at
    /// once, because tokio skips time while the test waits for another thread.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let (one, other) = (distlock::LockManager::in_memory(), distlock::LockManager::in_memory());
    /// let _first = one.lock("k").acquire().await?;
    /// let _second = other.lock("k").acquire().await?; // another manager, another memory
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("mock", "fake", "test double", "local lock"))]
    #[must_use]
    pub fn in_memory() -> Self {
        let client = connecting::client_id(None);
        LockManager::memory(client, String::new(), Defaults::default(), Observers::standard())
    }

    pub(super) fn memory(client: Arc<str>, prefix: String, defaults: Defaults, observers: Observers) -> Self {
        let memory = Memory::new(&client, prefix, MemoryStore::new(LockManager::memory_tuning()));
        LockManager::using_memory(client, memory, defaults, |client, memory, tuning, seed| {
            Core::start(client, memory, tuning, seed, observers)
        })
    }

    /// No other process can use these locks, so no client polls and no gaps are needed.
    pub(super) fn memory_tuning() -> Tuning {
        Tuning { poll_gap: Duration::ZERO, ..Tuning::default() }
    }

    pub(super) fn using_memory(
        client: Arc<str>,
        memory: Arc<Memory>,
        defaults: Defaults,
        start: impl FnOnce(Arc<str>, Arc<Memory>, &Tuning, u64) -> Arc<Alive>,
    ) -> Self {
        let alive = start(client, memory.clone(), &LockManager::memory_tuning(), connecting::seed());
        memory.deliver_to(alive.core());
        ManagerHandle::new(alive, defaults).into()
    }

    /// [`in_memory`](LockManager::in_memory), with `observer` for its events.
    #[cfg(test)]
    pub(crate) fn in_memory_observed_by(observer: Arc<dyn Observer>) -> Self {
        let observers = Observers::standard().and(observer);
        LockManager::memory(connecting::client_id(None), String::new(), Defaults::default(), observers)
    }
}

impl LockManagerBuilder {
    /// [`LockManager::in_memory`] with the options of this builder. For tests and programs of a single process that
    /// need other defaults. The same as the URL `memory:`. Options for servers have no effect.
    ///
    /// # Errors
    /// [`LockError::InvalidOptions`] if the builder names servers or a store, or an option is invalid.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::LockManager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = LockManager::builder().default_wait(Duration::from_millis(20)).in_memory()?;
    /// let _held = manager.lock("order:42").acquire().await?;
    /// assert!(manager.lock("order:42").acquire().await.unwrap_err().is_busy()); // after 20 ms
    /// # Ok(()) }
    /// ```
    #[doc(alias("mock", "fake", "test double"))]
    pub fn in_memory(self) -> Result<LockManager, LockError> {
        if self.url.is_some() || !self.quorum.is_empty() || self.store.is_some() {
            return Err(LockError::options(
                "`in_memory` and a place for locks (`url`, `quorum`, `store`): locks are kept in one place",
            ));
        }
        self.url("memory:").connect_lazy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn locks_in_memory_have_the_options_of_the_builder() {
        let builder = LockManager::builder().key_prefix("shop:").client_name("checkout");
        let manager = builder.default_wait(Duration::from_millis(1)).in_memory().unwrap();
        // A slow machine may need longer than the default.
        let guard = manager.lock("k").wait(Duration::from_secs(600)).acquire().await.unwrap();
        assert!(guard.owner().starts_with("dl1:checkout."), "{}", guard.owner());
        assert!(manager.lock("k").acquire().await.unwrap_err().is_busy());
        let lock = manager.inspect("k").await.unwrap().unwrap();
        assert_eq!((lock.key.as_str(), lock.full_key.as_str()), ("k", "shop:k"));
        let listed = manager.list("*").next().await.unwrap().unwrap();
        assert_eq!((listed.key.as_str(), listed.full_key.as_str()), ("k", "shop:k"));
    }

    #[test]
    fn locks_are_in_memory_or_on_a_server() {
        let builder = LockManager::builder;
        for builder in [builder().url("memory:"), builder().quorum(["redis://a"])] {
            let error = builder.in_memory().unwrap_err().to_string();
            assert!(error.contains("one place"), "{error}");
        }
        assert!(builder().default_ttl(Duration::ZERO).in_memory().is_err());
    }
}
