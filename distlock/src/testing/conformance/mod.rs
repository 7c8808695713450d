//! The suite that every store passes: exclusion, waiting, leases and their loss, release, several keys, fencing,
//! leadership, shared and limited locks, threads, the attribute.
//!
//! A [`Fixture`] makes a separate place for the locks of each test. [`conformance!`] makes a test of every rule.
//!
//! ```
//! use distlock::testing::conformance::{Fixture, Processes, Queue, conformance};
//! use distlock::{LockManager, LockManagerBuilder};
//!
//! struct InMemory(LockManager);
//!
//! impl Fixture for InMemory {
//!     const PROCESSES: Processes = Processes::One;
//!     const QUEUE: Queue = Queue::Shown;
//!
//!     async fn start() -> Self {
//!         InMemory(LockManager::in_memory())
//!     }
//!
//!     fn builder(&self) -> LockManagerBuilder {
//!         LockManager::builder().url("memory:")
//!     }
//!
//!     async fn manager(&self) -> LockManager {
//!         self.0.clone()
//!     }
//! }
//!
//! conformance!(InMemory, lacks: processes, link);
//! # fn main() {}
//! ```
//!
//! # What does not apply
//! Name the abilities that the store or the fixture lacks after `lacks:`. The rules that need such an ability are then
//! replaced by a test that it is really missing. For example, a kind of lock must be refused with the reason. So no
//! rule is skipped without a check.
//!
//! | word | the missing ability | instead of its rules |
//! |---|---|---|
//! | `shared` | read locks | they are refused |
//! | `limited` | semaphores | they are refused |
//! | `fencing` | fencing tokens, and with them leadership | they are refused |
//! | `min_hold` | a key that stays taken after its release | it is refused |
//! | `linger` | locks that a process keeps between its sections | it is refused |
//! | `processes` | managers that know nothing of each other | [`Fixture::PROCESSES`] says so |
//! | `queue` | waiters of other processes that `inspect` shows | [`Fixture::QUEUE`] says so, and `inspect` shows none |
//! | `link` | a link that can be cut | nothing |
//! | `listing` | a list of all locks | it is refused |
//! | `values` | the text that a holder publishes: of leaders, and to see deadlocks | it is refused |
//! | `hand_over` | locks that are handed over to another process | it is refused |
//! | `ttl` | leases that expire in the store; a store with sessions lacks them | nothing |
//!
//! Some tests take up to half a minute, because their bounds are generous, and some have a thousand threads. Run as
//! many at the same time as the store's server can handle.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "rules panic when they are broken")]

mod macros;
mod place;
#[doc(hidden)]
pub mod rules;

use std::future::Future;
use std::pin::Pin;

use crate::manager::{LockManager, LockManagerBuilder};

pub use crate::__conformance as conformance;
pub use place::Place;

/// Creates the store of one test. A test must not see the locks of other tests.
///
/// If several tests share a server, as in this example, each of them needs its own prefix:
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use distlock::testing::conformance::Fixture;
/// use distlock::{LockManager, LockManagerBuilder};
///
/// struct OnMyServer {
///     prefix: String,
/// }
///
/// impl Fixture for OnMyServer {
///     async fn start() -> Self {
///         static COUNT: AtomicU32 = AtomicU32::new(0);
///         OnMyServer { prefix: format!("test-{}:", COUNT.fetch_add(1, Ordering::Relaxed)) }
///     }
///
///     fn builder(&self) -> LockManagerBuilder {
///         LockManager::builder().url("redis://127.0.0.1/").key_prefix(&self.prefix)
///     }
///
///     fn prefix(&self) -> &str {
///         &self.prefix
///     }
/// }
/// ```
pub trait Fixture: Sized + Send + Sync + 'static {
    /// Whether two managers behave like two processes. If the store is in the manager, there is only one.
    const PROCESSES: Processes = Processes::Many;

    /// Whether [`LockInfo::waiters`](crate::LockInfo::waiters) counts the waiters of other processes.
    const QUEUE: Queue = Queue::Hidden;

    /// Creates the store of one test: a separate server or table, or a key prefix that no other test uses.
    fn start() -> impl Future<Output = Self> + Send;

    /// Options of a manager for this place.
    fn builder(&self) -> LockManagerBuilder;

    /// The key prefix that [`builder`](Fixture::builder) sets, if it does.
    fn prefix(&self) -> &str {
        ""
    }

    /// A manager, as another process would have it.
    fn manager(&self) -> impl Future<Output = LockManager> + Send {
        async { self.builder().connect().await.expect("the store is reachable") }
    }

    /// The data that is left in the store, as text for error messages. It must be empty after every lock was released
    /// and every waiter has left. Data that the store keeps on purpose, such as a counter of fencing tokens, does not
    /// count.
    fn residue(&self) -> impl Future<Output = Vec<String>> + Send {
        async { Vec::new() }
    }

    /// Cuts the links of all managers to the store, and keeps them cut. (Unless it lacks `link`.)
    fn cut(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Lets the managers connect again.
    fn mend(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Whether two managers of a [`Fixture`] are separate.
///
/// ```
/// use distlock::testing::conformance::{Fixture, Processes};
/// # use distlock::{LockManager, LockManagerBuilder};
///
/// struct OnMyServer;
///
/// impl Fixture for OnMyServer {
///     // The default, so it could be left out.
///     const PROCESSES: Processes = Processes::Many;
///     // ..
/// #   async fn start() -> Self {
/// #       OnMyServer
/// #   }
/// #   fn builder(&self) -> LockManagerBuilder {
/// #       LockManager::builder().url("redis://127.0.0.1/")
/// #   }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// They share only the store.
    Many,
    /// They are the same manager.
    One,
}

/// Whether a [`Fixture`] shows waiters.
///
/// ```
/// use distlock::testing::conformance::{Fixture, Queue};
/// # use distlock::{LockManager, LockManagerBuilder};
///
/// struct OnMyServer;
///
/// impl Fixture for OnMyServer {
///     const QUEUE: Queue = Queue::Shown;
///     // ..
/// #   async fn start() -> Self {
/// #       OnMyServer
/// #   }
/// #   fn builder(&self) -> LockManagerBuilder {
/// #       LockManager::builder().url("redis://127.0.0.1/")
/// #   }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The store has a queue, and shows it.
    Shown,
    /// Waiters are known to their own managers only.
    Hidden,
}

/// Runs one rule. What [`conformance!`] calls.
///
/// # Panics
/// If the rule is broken.
#[doc(hidden)]
pub fn run<F: Fixture>(rule: fn(Place) -> Pin<Box<dyn Future<Output = ()>>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async { rule(Place::new(F::start().await)).await });
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    const MACROS: &str = include_str!("macros.rs");

    /// The subjects of the rules, and their sources.
    macro_rules! sources {
        ($($subject:ident)*) => {
            [$((stringify!($subject), include_str!(concat!("rules/", stringify!($subject), ".rs")))),*]
        };
    }

    const SOURCES: [(&str, &str); 27] = sources! {
        attribute deadlocks exclusion fencing hand_over joining kinds lacking leader lease limited linger link listing
        loss min_hold operations processes queue reentry release several_keys shared threads ttl values waiting
    };

    /// Every rule is made into a test. A rule that is missing from the list would be skipped silently.
    #[test]
    fn every_rule_stands_in_a_list() {
        let subject = |line: &'static str| line.strip_prefix("pub mod ")?.strip_suffix(';');
        let subjects: Vec<_> = include_str!("rules/mod.rs").lines().filter_map(subject).collect();
        assert_eq!(SOURCES.map(|(subject, _)| subject).as_slice(), subjects);
        let words: HashSet<_> = MACROS.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let mut rules = 0;
        for (subject, source) in SOURCES {
            for after in source.split("\npub async fn ").skip(1) {
                let name = after.split('(').next().unwrap_or_default();
                assert!(words.contains(name), "`{subject}::{name}` is no test");
                rules += 1;
            }
        }
        assert!(rules > 150, "{rules} rules");
    }
}
