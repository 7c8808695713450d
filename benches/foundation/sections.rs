//! The contenders, which acquire and release a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use distlock::{LockManager, distributed_lock};
use distlock_benches::contenders::{AsyncRedisLock, Distlock, Locks, Raw, RawDefaults, Rlock, Rslock};
use distlock_benches::{Result, join};
use tokio::runtime::{Builder, Handle};

use crate::load::{Figures, Load, Section, run};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The number of a key that was never locked before.
fn fresh() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[derive(Clone)]
struct ByHand<L>(L);

impl<L: Locks> Section for ByHand<L> {
    async fn section(&self) -> Result<()> {
        L::release(self.0.acquire(&format!("bench:{}", fresh())).await?).await
    }
}

/// An annotated method.
#[derive(Clone)]
struct Annotated {
    locks: LockManager,
}

impl Annotated {
    #[distributed_lock(key = "bench:<id>", manager = self.locks)]
    async fn locked(&self, id: u64) -> Result<()> {
        Ok(())
    }
}

impl Section for Annotated {
    async fn section(&self) -> Result<()> {
        self.locked(fresh()).await
    }
}

/// An annotated method that returns as soon as its release is sent.
#[derive(Clone)]
struct InBackground {
    locks: LockManager,
}

impl InBackground {
    #[distributed_lock(key = "bench:<id>", manager = self.locks, release = "background")]
    async fn locked(&self, id: u64) -> Result<()> {
        Ok(())
    }
}

impl Section for InBackground {
    async fn section(&self) -> Result<()> {
        self.locked(fresh()).await
    }
}

/// All contenders. The others are compared with the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    RawDefaults,
    RawNoDelay,
    Distlock,
    Annotated,
    InBackground,
    /// [`Contender::Distlock`] on a runtime that does not read replies, because it was not declared to have I/O.
    IoThreadReads,
    Rslock,
    Rlock,
    AsyncRedisLock,
}

impl Contender {
    pub(crate) const ALL: [Contender; 8] = [
        Contender::RawDefaults,
        Contender::RawNoDelay,
        Contender::Distlock,
        Contender::Annotated,
        Contender::InBackground,
        Contender::Rslock,
        Contender::Rlock,
        Contender::AsyncRedisLock,
    ];
    /// The contenders that are measured through links with a delay.
    pub(crate) const FAR: [Contender; 5] = [
        Contender::RawDefaults,
        Contender::RawNoDelay,
        Contender::Distlock,
        Contender::Annotated,
        Contender::InBackground,
    ];
    /// Pairs of contenders. The callers' runtime reads the replies of one, and the I/O thread those of the other.
    pub(crate) const READERS: [Contender; 4] =
        [Contender::RawDefaults, Contender::RawNoDelay, Contender::Distlock, Contender::IoThreadReads];
    pub(crate) const OURS: [Contender; 2] = [Contender::Distlock, Contender::Annotated];
    pub(crate) const PEERS: [Contender; 3] = [Contender::Rslock, Contender::Rlock, Contender::AsyncRedisLock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::RawDefaults => "raw, redis-rs's defaults",
            Contender::RawNoDelay => "raw, TCP_NODELAY",
            Contender::Distlock => Distlock::NAME,
            Contender::Annotated => "distlock, annotated function",
            Contender::InBackground => "distlock, released in the background",
            Contender::IoThreadReads => "distlock, its I/O thread reads all replies",
            Contender::Rslock => Rslock::NAME,
            Contender::Rlock => Rlock::NAME,
            Contender::AsyncRedisLock => AsyncRedisLock::NAME,
        }
    }

    /// Connects, and runs each of the loads.
    pub(crate) async fn measure(self, loads: &[Load<'_>]) -> Result<Vec<Figures>> {
        let here = Handle::current();
        match self {
            Contender::RawDefaults => by_hand::<RawDefaults>(loads).await,
            Contender::RawNoDelay => by_hand::<Raw>(loads).await,
            Contender::Distlock => by_hand::<Distlock>(loads).await,
            Contender::Annotated => {
                all(&Annotated { locks: connected::<Distlock>(loads).await?.0 }, loads, &here).await
            }
            Contender::InBackground => {
                all(&InBackground { locks: connected::<Distlock>(loads).await?.0 }, loads, &here).await
            }
            Contender::IoThreadReads => {
                let runtime = Builder::new_multi_thread().enable_all().build()?;
                let contender = ByHand(connected::<Distlock>(loads).await?);
                let figures = all(&contender, loads, runtime.handle()).await;
                // It is not dropped, which would block this runtime's thread.
                runtime.shutdown_background();
                figures
            }
            Contender::Rslock => by_hand::<Rslock>(loads).await,
            Contender::Rlock => by_hand::<Rlock>(loads).await,
            Contender::AsyncRedisLock => by_hand::<AsyncRedisLock>(loads).await,
        }
    }
}

async fn connected<L: Locks>(loads: &[Load<'_>]) -> Result<L> {
    L::connect(loads.first().ok_or("nothing to measure")?.url).await
}

async fn by_hand<L: Locks>(loads: &[Load<'_>]) -> Result<Vec<Figures>> {
    all(&ByHand(connected::<L>(loads).await?), loads, &Handle::current()).await
}

/// Runs each of the loads with tasks on `runtime`.
async fn all<S: Section>(contender: &S, loads: &[Load<'_>], runtime: &Handle) -> Result<Vec<Figures>> {
    let first = contender.clone();
    // Makes connections and loads scripts before the measurement.
    join(runtime.spawn(async move {
        for _ in 0..20 {
            first.section().await?;
        }
        Ok(())
    }))
    .await?;
    let mut figures = Vec::new();
    for load in loads {
        figures.push(run(contender, load, runtime).await?);
    }
    Ok(figures)
}
