//! Locks with and without observers, compared in one process.

mod recorder;

use distlock::{Events, LockError, LockManager};

pub use recorder::install;

/// The observers of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// No observer.
    Not,
    /// Metrics and tracing.
    ByMetrics,
    /// Metrics and tracing, and a reader of the stream of events.
    ByMetricsAndReader,
}

impl Observed {
    /// All of them.
    pub const ALL: [Observed; 3] = [Observed::Not, Observed::ByMetrics, Observed::ByMetricsAndReader];

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Observed::Not => "off",
            Observed::ByMetrics => "metrics",
            Observed::ByMetricsAndReader => "metrics+events",
        }
    }
}

/// A manager with these observers.
#[derive(Debug)]
pub struct Locks {
    manager: LockManager,
    reader: Option<Events>,
}

impl Locks {
    /// A manager for `url`, which connects on first use.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn new(url: &str, observed: Observed) -> Result<Self, LockError> {
        let manager = match observed {
            Observed::Not => distlock::testing::unobserved(|| LockManager::connect_lazy(url))?,
            Observed::ByMetrics | Observed::ByMetricsAndReader => LockManager::connect_lazy(url)?,
        };
        let reader = (observed == Observed::ByMetricsAndReader).then(|| manager.events());
        Ok(Locks { manager, reader })
    }

    /// Acquires and releases an uncontended lock.
    ///
    /// # Errors
    /// If the store is unreachable.
    pub async fn lock(&mut self) -> Result<(), LockError> {
        self.manager.lock("bench:one").label("bench").acquire().await?.release().await?;
        if let Some(reader) = &mut self.reader {
            // Two events for each lock. A report of missed events counts as one.
            for _ in 0..2 {
                reader.next().await;
            }
        }
        Ok(())
    }
}
