//! So many tasks, each of which takes one lock after the other.

use std::time::{Duration, Instant};

use distlock_benches::clock::{cpu_time, monotonic};
use distlock_benches::cores::Cores;
use distlock_benches::server::Server;
use distlock_benches::stats::quantile;
use distlock_benches::{Result, join};
use tokio::runtime::Handle;

/// Takes a lock that nobody else wants, does nothing, gives it back.
pub(crate) trait Section: Clone + Send + Sync + 'static {
    fn section(&self) -> impl Future<Output = Result<()>> + Send;
}

/// One contender with one number of tasks in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Time of one lock, nanoseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) per_second: f64,
    /// CPU time per lock, nanoseconds.
    pub(crate) client_cpu: f64,
    pub(crate) server_cpu: f64,
}

/// What distinguishes a row from the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) tasks: usize,
    pub(crate) cores: Cores,
    /// How long the link to the server takes, each way: nothing on the loopback.
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

    /// Whether the server is on another machine, as it were.
    pub(crate) fn is_far(self) -> bool {
        !self.each_way.is_zero()
    }
}

/// Which tasks, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) shape: Shape,
    /// Where the server is reached: directly, or through a link.
    pub(crate) url: &'a str,
    pub(crate) span: Duration,
    pub(crate) server: &'a Server,
}

/// What one task did: the time of each lock, nanoseconds.
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
    // Spawned also if there is one only: that is how programs run, and it costs a wake-up less than the main
    // thread.
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
