//! Nobody else wants the locks: what taking and giving back one costs, contender by contender.
//!
//! Within a round the contenders take turns after a few locks, so that they find the same machine. A ratio is
//! taken within a round, and the median over the rounds is what counts: so a busy machine makes the rounds
//! differ, not the ratio.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::clock::monotonic;
use crate::contenders::Locks;
use crate::stats::{median, quantile};

type Section = Box<dyn Fn(usize) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;

/// Takes a lock, does nothing, gives it back.
pub struct Contender {
    name: String,
    /// How many locks it takes before it is the next one's turn.
    slice: usize,
    section: Section,
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Contender {
    /// `section` is given a number that rises by one from call to call.
    pub fn new<F>(name: impl Into<String>, section: impl Fn(usize) -> F + Send + Sync + 'static) -> Contender
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Contender { name: name.into(), slice: 25, section: Box::new(move |at| Box::pin(section(at))) }
    }

    /// Takes the `keys` in turn.
    pub fn on<L: Locks>(name: impl Into<String>, locks: L, keys: Arc<[String]>) -> Contender {
        Contender::new(name, move |at| {
            let (locks, keys) = (locks.clone(), Arc::clone(&keys));
            async move { L::release(locks.acquire(&keys[at % keys.len()]).await?).await }
        })
    }

    /// Takes its turn after `locks` locks, for those that are slow.
    #[must_use]
    pub fn slice(mut self, locks: usize) -> Contender {
        self.slice = locks;
        self
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One lock; how long that took, nanoseconds.
    ///
    /// # Errors
    /// The contender's.
    pub async fn section(&self, number: usize) -> Result<u64> {
        let start = monotonic();
        (self.section)(number).await?;
        Ok(monotonic() - start)
    }
}

/// Medians of nanoseconds: one for each contender in each round.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    rounds: Vec<Vec<f64>>,
}

impl Rounds {
    /// Adds a round in which everybody takes `turns` turns.
    ///
    /// # Errors
    /// The contenders'.
    pub async fn add(&mut self, contenders: &[Contender], turns: usize) -> Result<()> {
        let mut samples = vec![Vec::new(); contenders.len()];
        let mut number = self.rounds.len() * turns * 25;
        for _ in 0..turns {
            for (contender, samples) in contenders.iter().zip(&mut samples) {
                for at in 0..contender.slice {
                    samples.push(contender.section(number + at).await?);
                }
            }
            number += 25;
        }
        self.rounds.push(samples.iter_mut().map(|samples| quantile(samples, 0.5) as f64).collect());
        Ok(())
    }

    /// A number of rounds, after one that warms up.
    ///
    /// # Errors
    /// The contenders'.
    pub async fn run(contenders: &[Contender], rounds: usize, turns: usize) -> Result<Rounds> {
        Rounds::default().add(contenders, turns).await?;
        let mut all = Rounds::default();
        for _ in 0..rounds {
            all.add(contenders, turns).await?;
        }
        Ok(all)
    }

    /// The median of one contender, nanoseconds.
    #[must_use]
    pub fn p50(&self, contender: usize) -> f64 {
        median(&mut self.rounds.iter().map(|round| round[contender]).collect::<Vec<_>>())
    }

    /// How much longer one takes than the other.
    #[must_use]
    pub fn ratio(&self, contender: usize, base: usize) -> f64 {
        median(&mut self.rounds.iter().map(|round| round[contender] / round[base]).collect::<Vec<_>>())
    }
}

/// A time limit for contenders that may never come back; `None` if it has passed.
///
/// # Errors
/// The contender's.
pub async fn bounded(contender: &Contender, number: usize, limit: Duration) -> Result<Option<u64>> {
    match tokio::time::timeout(limit, contender.section(number)).await {
        Ok(took) => took.map(Some),
        Err(_) => Ok(None),
    }
}
