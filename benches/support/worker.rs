//! A process that acquires one key repeatedly, and records the times.

use std::io::Write;
use std::time::Duration;

use crate::Result;
use crate::clock::{monotonic, sleep_until};
use crate::contenders::{AsyncRedisLock, Distlock, Locks, Raw, Rlock, Rslock, WithoutGaps};
use crate::sections::Section;

/// The first argument of a process that is a worker.
pub const COMMAND: &str = "--worker";

/// The work of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) hold: Duration,
    pub(crate) think: Duration,
    /// The begin and the end.
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Job {
    pub(crate) fn to_args(&self) -> Vec<String> {
        let nanos = |d: Duration| d.as_nanos().to_string();
        vec![
            COMMAND.to_owned(),
            self.name.clone(),
            self.url.clone(),
            self.key.clone(),
            nanos(self.hold),
            nanos(self.think),
            self.from.to_string(),
            self.until.to_string(),
        ]
    }

    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Job> {
        let mut next = || args.next().ok_or("a worker's arguments are incomplete");
        Ok(Job {
            name: next()?,
            url: next()?,
            key: next()?,
            hold: Duration::from_nanos(next()?.parse()?),
            think: Duration::from_nanos(next()?.parse()?),
            from: next()?.parse()?,
            until: next()?.parse()?,
        })
    }
}

/// The whole life of a worker.
///
/// # Errors
/// Any error of the worker.
pub fn run(args: impl Iterator<Item = String>) -> Result<()> {
    let job = Job::from_args(args)?;
    // The main thread runs the sections and sleeps in them. The other thread serves the connections.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sections = runtime.block_on(async {
        match job.name.as_str() {
            Distlock::NAME => work::<Distlock>(&job).await,
            WithoutGaps::NAME => work::<WithoutGaps>(&job).await,
            Raw::NAME => work::<Raw>(&job).await,
            Rslock::NAME => work::<Rslock>(&job).await,
            Rlock::NAME => work::<Rlock>(&job).await,
            AsyncRedisLock::NAME => work::<AsyncRedisLock>(&job).await,
            other => Err(format!("no contender is called `{other}`").into()),
        }
    })?;
    let mut out = std::io::stdout().lock();
    for section in sections {
        out.write_all(&section.to_bytes())?;
    }
    Ok(())
}

async fn work<L: Locks>(job: &Job) -> Result<Vec<Section>> {
    let locks = L::connect(&job.url).await?;
    // Makes connections and loads scripts before the measurement.
    L::release(locks.acquire(&format!("{}:{}", job.key, std::process::id())).await?).await?;
    let mut sections = Vec::new();
    // The workers do not all begin at the same instant.
    sleep_until(job.from + fastrand::u64(0..1_000_000));
    while monotonic() < job.until {
        let asked = monotonic();
        let guard = locks.acquire(&job.key).await?;
        let start = monotonic();
        std::thread::sleep(job.hold);
        let end = monotonic();
        sections.push(Section { asked, start, end });
        L::release(guard).await?;
        std::thread::sleep(job.think);
    }
    Ok(sections)
}
