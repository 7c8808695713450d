//! Nobody else wants the locks: what taking and giving back one costs, contender by contender.
//!
//! Within a round the contenders take turns after a few locks, in an order that changes, so that they find the
//! same machine. A ratio is taken within a round, and the median over the rounds is what counts: so a busy
//! machine makes the rounds differ, not the ratio. Every round connects anew: whether a connection's thread and
//! its server share a core is decided once for each and is worth tens of microseconds.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

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

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How often all is connected anew.
    pub rounds: usize,
    /// How many turns everybody takes in a round.
    pub turns: usize,
}

/// Medians of nanoseconds: one for each contender in each round.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    names: Vec<String>,
    rounds: Vec<Vec<f64>>,
}

impl Rounds {
    /// Measures what `connect` makes.
    ///
    /// # Errors
    /// Those of `connect` and of the contenders.
    pub async fn run(extent: Extent, connect: impl AsyncFn() -> Result<Vec<Contender>>) -> Result<Rounds> {
        let mut all = Rounds::default();
        for _ in 0..extent.rounds {
            let contenders = connect().await?;
            all.names = contenders.iter().map(|contender| contender.name.clone()).collect();
            // Connections that are made on first use, and scripts that are loaded then.
            one_round(&contenders, 2).await?;
            all.rounds.push(one_round(&contenders, extent.turns).await?);
        }
        Ok(all)
    }

    /// What they are called.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
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
