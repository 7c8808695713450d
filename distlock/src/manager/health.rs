//! The health of the store, and the events of the manager.

use std::time::Duration;

use super::LockManager;
use crate::error::LockError;
use crate::key::LockKey;
use crate::observe::{Events, Observers};
use crate::process;
use crate::protocol::Notifications;
use distlock_store::Finding;

/// Whether a manager can reach its store: see [`LockManager::health`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// assert!(manager.health().is_ready());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the store is connected. For a quorum: whether a majority of the servers is connected.
    pub connected: bool,
    /// How long the store has been connected or disconnected.
    pub lasted: Duration,
    /// The time since the store last executed a command for a lock. `None`: it has not executed any. An idle program
    /// sends no commands.
    pub last_answer: Option<Duration>,
    /// Whether the store pushes hand-offs. While it does not, waiters poll, and hand-offs take longer.
    pub pushes: bool,
    /// Why the store is not connected, if an attempt has failed. Or why a connected store refuses locks, for example
    /// because the permissions have changed.
    pub cause: Option<String>,
    /// Whether the manager was shut down, or its I/O thread has ended.
    pub closed: bool,
}

impl Health {
    /// Whether new locks can be expected to work: for readiness probes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let status = if manager.health().is_ready() { 200 } else { 503 };
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.connected && !self.closed
    }
}

impl LockManager {
    /// The state of the store, as far as it is known at this moment. No I/O, so it can be called often.
    ///
    /// ```
    /// use distlock::LockManager;
    ///
    /// /// For a probe: 200 or 503.
    /// fn readiness(locks: &LockManager) -> u16 {
    ///     if locks.health().is_ready() { 200 } else { 503 }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let locks = LockManager::builder().url("memory:").connect().await?;
    /// assert_eq!(readiness(&locks), 200);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A manager that connects on first use is not connected before that. If readiness depends on locks, all instances
    /// of a service become unready while the store is unreachable. Use it for readiness only if an instance can do
    /// nothing without locks.
    #[doc(alias("readiness", "liveness", "ping", "is_connected"))]
    #[must_use]
    pub fn health(&self) -> Health {
        let core = self.core();
        // In a fork, a mutex may be locked by a thread that does not exist here.
        if core.is_forked() {
            return Health {
                connected: false,
                lasted: Duration::ZERO,
                last_answer: None,
                pushes: false,
                cause: Some(process::forked().to_string()),
                closed: true,
            };
        }
        let look = core.vitals.look();
        Health {
            connected: look.up,
            lasted: look.lasted,
            last_answer: look.answered,
            pushes: look.up && look.pushes == Notifications::On,
            cause: look.cause.or_else(|| core.backend.refusal()).map(|cause| cause.to_string()),
            closed: *core.closing().borrow() || core.refusal().is_some(),
        }
    }

    /// Examines the store. Each finding is a risk for locks or a cause of slowness, with a remedy. The command
    /// `distlock doctor` prints the findings, and also tries locks of all kinds. It takes a few round trips and changes
    /// nothing. If a store cannot be examined, a finding says so.
    ///
    /// ```
    /// use distlock::Severity;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::in_memory();
    /// for finding in manager.diagnose().await? {
    ///     if finding.severity >= Severity::Warning {
    ///         eprintln!("{}: {} ({:?})", finding.about, finding.text, finding.remedy);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Unavailable`] if the store is unreachable.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[doc(alias("doctor", "check"))]
    pub fn diagnose(&self) -> impl Future<Output = Result<Vec<Finding>, LockError>> + Send {
        Box::pin(async {
            let key = LockKey::from_shared("distlock".into());
            self.reaching(&key, |core, _| core.backend.diagnose()).await
        })
    }

    /// The events of this manager from now on, for alerts, audits and tests. The stream is bounded. A reader that is
    /// too slow loses the oldest events, and an event reports how many. Without a reader, the stream costs nothing.
    ///
    /// ```
    /// use distlock::{LockEvent, LockManager};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = LockManager::builder().url("memory:").connect().await?;
    /// let mut events = manager.events();
    /// let alerts = tokio::spawn(async move {
    ///     while let Some(event) = events.next().await {
    ///         if let LockEvent::Lost { label, reason, .. } = event {
    ///             eprintln!("a lock of {label} was lost: {reason}");
    ///         }
    ///     }
    /// });
    /// manager.lock("order:42").label("order").run(async |_| {}).await?;
    /// # drop(manager); alerts.await.unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Events contain keys, which may be personal data.
    #[doc(alias("listener", "subscribe", "audit", "alerts", "LockingTaskExecutorListener"))]
    #[must_use]
    pub fn events(&self) -> Events {
        let core = self.core();
        // In a fork, the mutex may be locked by a thread that does not exist here. This stream has ended.
        if core.is_forked() { Observers::default().subscribe() } else { core.observers.subscribe() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manager_in_memory_is_ready_until_it_is_shut_down() {
        let manager = LockManager::builder().url("memory:").connect().await.unwrap();
        let health = manager.health();
        assert!(health.is_ready() && health.cause.is_none(), "{health:?}");
        manager.lock("k").acquire().await.unwrap().release().await.unwrap();
        assert!(manager.health().last_answer.is_some());
        manager.shutdown(Duration::ZERO).await;
        let health = manager.health();
        assert!(health.closed && !health.is_ready(), "{health:?}");
    }

    #[cfg(feature = "redis")]
    #[tokio::test]
    async fn a_server_that_is_not_there_is_named_as_the_cause() {
        let manager = LockManager::connect_lazy("redis://127.0.0.1:1/").unwrap();
        assert!(!manager.health().is_ready());
        manager.lock("k").acquire().await.unwrap_err();
        let health = manager.health();
        assert!(!health.connected && !health.pushes && health.last_answer.is_none(), "{health:?}");
        assert!(health.cause.is_some_and(|cause| cause.contains("127.0.0.1")));
    }
}
