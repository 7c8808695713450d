//! Locks with and without observers, side by side in one process.

mod recorder;

use distlock::{Events, LockError, LockManager};

pub use recorder::install;

/// Who observes a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// Nobody.
    Not,
    /// Metrics, and whoever traces.
    ByMetrics,
    /// The same, and a reader of the stream of events.
    ByMetricsAndReader,
}

impl Observed {
    /// All of them.
    pub const ALL: [Observed; 3] = [Observed::Not, Observed::ByMetrics, Observed::ByMetricsAndReader];

    /// As an argument.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Observed::Not => "off",
            Observed::ByMetrics => "metrics",
            Observed::ByMetricsAndReader => "metrics+events",
        }
    }
}

/// A manager that is observed like that.
#[derive(Debug)]
pub struct Locks {
    manager: LockManager,
    reader: Option<Events>,
}

impl Locks {
    /// A manager for `url`, which connects on first use.
    ///
    /// # Errors
    /// If the URL is not understood.
    pub fn new(url: &str, observed: Observed) -> Result<Self, LockError> {
        let manager = match observed {
            Observed::Not => distlock::testing::unobserved(|| LockManager::connect_lazy(url))?,
            Observed::ByMetrics | Observed::ByMetricsAndReader => LockManager::connect_lazy(url)?,
        };
        let reader = (observed == Observed::ByMetricsAndReader).then(|| manager.events());
        Ok(Locks { manager, reader })
    }

    /// Takes a lock that nobody else wants, and gives it back.
    ///
    /// # Errors
    /// If the store cannot be reached.
    pub async fn lock(&mut self) -> Result<(), LockError> {
        self.manager.lock("bench:one").label("bench").acquire().await?.release().await?;
        if let Some(reader) = &mut self.reader {
            // Two events for each lock; what was missed is one.
            for _ in 0..2 {
                reader.next().await;
            }
        }
        Ok(())
    }
}
