//! A number of tasks, each of which acquires one lock after the other.

use std::time::{Duration, Instant};

use distlock_benches::clock::{cpu_time, monotonic};
use distlock_benches::cores::Cores;
use distlock_benches::server::Server;
use distlock_benches::stats::quantile;
use distlock_benches::{Result, join};
use tokio::runtime::Handle;

/// Acquires and releases an uncontended lock.
pub(crate) trait Section: Clone + Send + Sync + 'static {
    fn section(&self) -> impl Future<Output = Result<()>> + Send;
}

/// One contender with one number of tasks in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// The time of one lock, in nanoseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) per_second: f64,
    /// CPU time per lock, nanoseconds.
    pub(crate) client_cpu: f64,
    pub(crate) server_cpu: f64,
}

/// The properties of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) tasks: usize,
    pub(crate) cores: Cores,
    /// The delay of the link to the server, each way. Zero on the loopback.
    pub(crate) each_way: Duration,
}

impl Shape {
    pub(crate) fn name(self) -> String {
        let tasks = if self.tasks == 1 { "1 task".to_owned() } else { format!("{} tasks", self.tasks) };
        let cores = match self.cores {
            Cores::Any => "",
            Cores::Apart => ", server on another core",
            Cores::Shared => ", server on the same core",
        };
        let link = if self.is_far() { format!(", {:?} each way", self.each_way) } else { String::new() };
        tasks + cores + &link
    }

    /// Whether the link simulates a server on another machine.
    pub(crate) fn is_far(self) -> bool {
        !self.each_way.is_zero()
    }
}

/// The tasks, and their duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) shape: Shape,
    /// The URL of the server, directly or through a link.
    pub(crate) url: &'a str,
    pub(crate) span: Duration,
    pub(crate) server: &'a Server,
}

/// Runs one task. Returns the time of each lock, in nanoseconds.
async fn one_task<S: Section>(contender: S, until: Instant) -> Result<Vec<u64>> {
    let mut samples = Vec::with_capacity(4096);
    while Instant::now() < until {
        let start = monotonic();
        contender.section().await?;
        samples.push(monotonic() - start);
    }
    Ok(samples)
}

pub(crate) async fn run<S: Section>(contender: &S, load: &Load<'_>, runtime: &Handle) -> Result<Figures> {
    let _pinned = load.shape.cores.pin(load.server.pid())?;
    let server = load.server.cpu_time()?;
    let (start, cpu) = (Instant::now(), cpu_time());
    let until = start + load.span;
    // A single task is spawned, too. Programs do this, and it costs one wake-up less than on the main thread.
    let tasks: Vec<_> =
        (0..load.shape.tasks).map(|_| runtime.spawn(one_task(contender.clone(), until))).collect();
    let mut samples = Vec::new();
    for task in tasks {
        samples.extend(join(task).await?);
    }
    let (span, cpu) = (start.elapsed(), cpu_time() - cpu);
    let server = load.server.cpu_time()? - server;
    let locks = samples.len() as f64;
    Ok(Figures {
        p50: quantile(&mut samples, 0.5) as f64,
        p99: quantile(&mut samples, 0.99) as f64,
        per_second: locks / span.as_secs_f64(),
        client_cpu: cpu.as_nanos() as f64 / locks,
        server_cpu: server.as_nanos() as f64 / locks,
    })
}
