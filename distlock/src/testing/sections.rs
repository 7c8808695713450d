//! Counts sections.

use std::sync::Arc;

use crate::manager::LockManager;
use crate::observe::counts::{Counts, CountsOf, SectionCount};

/// Counts the locks of some managers from now on, to assert that sections do not overlap, and how many there were.
/// Guards count like sections.
///
/// ```
/// use distlock::testing::{Sections, TestStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// let store = TestStore::new();
/// let (one, other) = (store.process(), store.process());
/// let sections = Sections::of([&one, &other]);
/// let section = |manager: &distlock::LockManager| {
///     let request = manager.lock("order:42");
///     async { request.run(async |_| tokio::task::yield_now().await).await }
/// };
/// let (first, second, third) = tokio::join!(section(&one), section(&other), section(&one));
/// first.and(second).and(third)?;
/// let orders = sections.count("order:42");
/// assert_eq!((orders.begun, orders.most_at_once, orders.running), (3, 1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Sections(Arc<Counts>);

impl Sections {
    /// Counts the sections of all these managers together. (Clones of a manager count as one manager.)
    ///
    /// # Panics
    /// If the sections of one of them are already counted.
    ///
    /// ```
    /// use distlock::LockManager;
    /// use distlock::testing::Sections;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = LockManager::in_memory();
    /// let sections = Sections::of([&manager]);
    /// manager.lock("order:42").run(async |_held| {}).await?;
    /// assert_eq!(sections.count("order:42").begun, 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn of<'a>(managers: impl IntoIterator<Item = &'a LockManager>) -> Self {
        let counts = Arc::new(Counts::default());
        for manager in managers {
            let core = manager.core();
            let mine = CountsOf { manager: core.id, counts: counts.clone() };
            assert!(core.observers.counter().begin(mine), "the sections of {manager:?} are already counted");
        }
        Sections(counts)
    }

    /// The counts of one key.
    ///
    /// ```
    /// use distlock::testing::Sections;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::in_memory();
    /// let sections = Sections::of([&manager]);
    /// let guard = manager.lock("order:42").acquire().await?;
    /// assert_eq!((sections.count("order:42").running, sections.count("order:43").begun), (1, 0));
    /// # drop(guard); Ok(()) }
    /// ```
    #[must_use]
    pub fn count(&self, key: impl AsRef<str>) -> SectionCount {
        self.0.of(key.as_ref())
    }
}
