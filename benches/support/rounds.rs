//! The cost of an uncontended lock, for each contender.
//!
//! Within a round, the contenders take turns after a few locks, in an order that changes, so that they run under the
//! same conditions. A ratio is computed within a round, and the result is the median over the rounds. So a busy machine
//! changes the rounds, but not the ratio. Every round makes new connections, because whether a connection's thread and
//! its server share a core is decided once for each connection, and changes the time by tens of microseconds.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::Result;
use crate::clock::monotonic;
use crate::contenders::Locks;
use crate::stats::{median, quantile};

type Section = Box<dyn Fn(usize) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;

/// Acquires and releases a lock.
pub struct Contender {
    name: String,
    /// The number of locks in one turn.
    slice: usize,
    section: Section,
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Contender {
    /// `section` gets a number that rises by one with each call.
    pub fn new<F>(name: impl Into<String>, section: impl Fn(usize) -> F + Send + Sync + 'static) -> Contender
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Contender { name: name.into(), slice: 25, section: Box::new(move |at| Box::pin(section(at))) }
    }

    /// Locks the `keys` in turn.
    pub fn on<L: Locks>(name: impl Into<String>, locks: L, keys: Arc<[String]>) -> Contender {
        Contender::new(name, move |at| {
            let (locks, keys) = (locks.clone(), Arc::clone(&keys));
            async move { L::release(locks.acquire(&keys[at % keys.len()]).await?).await }
        })
    }

    /// Ends its turn after `locks` locks, for slow contenders.
    #[must_use]
    pub fn slice(mut self, locks: usize) -> Contender {
        self.slice = locks;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs one lock. Returns its time, in nanoseconds.
    ///
    /// # Errors
    /// The error of the contender.
    pub async fn section(&self, number: usize) -> Result<u64> {
        let start = monotonic();
        (self.section)(number).await?;
        Ok(monotonic() - start)
    }
}

/// The extent of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How often all contenders connect again.
    pub rounds: usize,
    /// The number of turns of each contender in a round.
    pub turns: usize,
}

/// The medians in nanoseconds, one for each contender in each round.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    names: Vec<String>,
    rounds: Vec<Vec<f64>>,
}

impl Rounds {
    /// Measures the contenders of `connect`.
    ///
    /// # Errors
    /// The errors of `connect` and of the contenders.
    pub async fn run(extent: Extent, connect: impl AsyncFn() -> Result<Vec<Contender>>) -> Result<Rounds> {
        let mut all = Rounds::default();
        for _ in 0..extent.rounds {
            let contenders = connect().await?;
            all.names = contenders.iter().map(|contender| contender.name.clone()).collect();
            // Makes connections and loads scripts before the measurement.
            one_round(&contenders, 2).await?;
            all.rounds.push(one_round(&contenders, extent.turns).await?);
        }
        Ok(all)
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The median of one contender, nanoseconds.
    #[must_use]
    pub fn p50(&self, contender: usize) -> f64 {
        median(&mut self.rounds.iter().map(|round| round[contender]).collect::<Vec<_>>())
    }

    /// The time of `contender`, divided by that of `base`.
    #[must_use]
    pub fn ratio(&self, contender: usize, base: usize) -> f64 {
        median(&mut self.rounds.iter().map(|round| round[contender] / round[base]).collect::<Vec<_>>())
    }
}

async fn one_round(contenders: &[Contender], turns: usize) -> Result<Vec<f64>> {
    let mut samples = vec![Vec::new(); contenders.len()];
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for turn in 0..turns {
        fastrand::shuffle(&mut order);
        for &at in &order {
            for number in 0..contenders[at].slice {
                samples[at].push(contenders[at].section(turn * contenders[at].slice + number).await?);
            }
        }
    }
    Ok(samples.iter_mut().map(|samples| quantile(samples, 0.5) as f64).collect())
}
