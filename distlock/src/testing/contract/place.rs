//! The operations of rules on a fixture.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Broken, Fixture, Process};
use crate::testing::any_store::AnyStore;
use distlock_store::{Abilities, Acquire, LeaseRule, LockStore, Owner};

/// Longer than any rule runs.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// A lease whose end is awaited, where the store can keep one so short.
const SHORT: Duration = Duration::from_millis(300);

/// A fixture in use, for one rule. The rules are compiled once, for all fixtures.
#[derive(Debug)]
pub(crate) struct Place {
    fixture: Box<dyn Erased>,
    rule: &'static str,
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Fixture`] of any type.
trait Erased: Send + Sync {
    fn store(&self) -> AnyStore;
    fn store_apart(&self) -> AnyStore;
    fn prefix(&self) -> &str;
    fn cut(&self) -> BoxFuture<'_, ()>;
    fn hold(&self) -> BoxFuture<'_, ()>;
    fn mend(&self) -> BoxFuture<'_, ()>;
    fn restart(&self) -> BoxFuture<'_, ()>;
}

impl<F: Fixture> Erased for F {
    fn store(&self) -> AnyStore {
        AnyStore::new(Fixture::store(self))
    }

    fn store_apart(&self) -> AnyStore {
        AnyStore::new(Fixture::store_apart(self))
    }

    fn prefix(&self) -> &str {
        Fixture::prefix(self)
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        Box::pin(Fixture::cut(self))
    }

    fn hold(&self) -> BoxFuture<'_, ()> {
        Box::pin(Fixture::hold(self))
    }

    fn mend(&self) -> BoxFuture<'_, ()> {
        Box::pin(Fixture::mend(self))
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        Box::pin(Fixture::restart(self))
    }
}

impl fmt::Debug for dyn Erased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fixture")
    }
}

impl Place {
    pub(super) fn new(fixture: impl Fixture, rule: &'static str) -> Self {
        Place { fixture: Box::new(fixture), rule }
    }

    /// A process whose links are those that can be cut and held.
    pub(super) async fn process(&self) -> Result<Process, Broken> {
        Process::start(self.fixture.store()).await
    }

    /// A process whose links stay whole.
    pub(super) async fn process_apart(&self) -> Result<Process, Broken> {
        Process::start(self.fixture.store_apart()).await
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.fixture.store().abilities()
    }

    /// The key of this rule, or one of them.
    pub(super) fn key(&self, which: impl fmt::Display) -> Arc<str> {
        format!("{}{}.{which}", self.fixture.prefix(), self.rule).into()
    }

    /// The beginning of all keys of this rule.
    pub(super) fn beginning(&self) -> String {
        format!("{}{}.", self.fixture.prefix(), self.rule)
    }

    /// The longest time that the store cannot distinguish from zero.
    pub(super) fn granularity(&self) -> Duration {
        match self.abilities().lease {
            LeaseRule::PerLock { granularity } => granularity,
            LeaseRule::Session => Duration::from_millis(1),
        }
    }

    /// A time that is awaited: short, and one that the store can keep.
    pub(super) fn short(&self) -> Duration {
        SHORT.max(self.granularity())
    }

    pub(super) async fn cut(&self) {
        self.fixture.cut().await;
    }

    pub(super) async fn hold(&self) {
        self.fixture.hold().await;
    }

    pub(super) async fn mend(&self) {
        self.fixture.mend().await;
    }

    pub(super) async fn restart(&self) {
        self.fixture.restart().await;
    }
}

/// An exclusive lock for longer than any rule runs.
pub(super) fn long(key: &Arc<str>, owner: &Owner) -> Acquire {
    Acquire::new(key.clone(), owner, LONG)
}
