//! Several processes on one key: commands, the time of a hand-off, fairness.
//!
//! Each process repeatedly acquires the key, holds it for 0.5 ms, and thinks for 1 ms. It is the program of the bench
//! itself, started as a worker. A hand-off is the time from the instant before a holder sends its release until the
//! next holder's section begins, in any process. It is compared with the round trip of a PING of one quiet client,
//! measured in the same run before and after. Like a hand-off, each PING comes after a pause, because a client that
//! pings without pauses keeps the cores awake and gets its replies in half the time. That is measured, too.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::clock::{monotonic, sleep_until};
use crate::counting::Counting;
use crate::sections::Section;
use crate::server::Server;
use crate::stats::{jain, mean, quantile};
use crate::worker::Job;

const HOLD: Duration = Duration::from_micros(500);
const THINK: Duration = Duration::from_millis(1);

/// The results of one contender.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The sections of all processes together.
    pub sections_per_second: f64,
    /// The commands of clients for each section.
    pub commands: f64,
    /// Time of a hand-off, median, nanoseconds.
    pub p50: u64,
    /// Time of a hand-off, 99th percentile, nanoseconds.
    pub p99: u64,
    /// The longest hand-off, nanoseconds.
    pub longest_gap: u64,
    /// The time from the request to the lock, 99th percentile, in nanoseconds.
    pub wait_p99: u64,
    /// The longest time from the request to the lock, divided by the mean.
    pub longest_wait_to_mean: f64,
    /// Jain's index over the numbers of sections.
    pub fairness: f64,
    /// The PINGs for comparison.
    pub ping: Ping,
}

/// Round trips of a PING, nanoseconds, median.
#[derive(Clone, Copy, Debug)]
pub struct Ping {
    /// Each after a pause that is as long as a section.
    pub paced: u64,
    /// One after the other.
    pub rapid: u64,
}

impl Ping {
    fn or_less(self, other: Ping) -> Ping {
        Ping { paced: self.paced.min(other.paced), rapid: self.rapid.min(other.rapid) }
    }
}

impl Figures {
    /// The median hand-off in paced PINGs.
    #[must_use]
    pub fn p50_in_pings(&self) -> f64 {
        self.p50 as f64 / self.ping.paced as f64
    }

    /// The 99th percentile in paced PINGs.
    #[must_use]
    pub fn p99_in_pings(&self) -> f64 {
        self.p99 as f64 / self.ping.paced as f64
    }
}

/// The work of the processes, and their server.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The URL for the workers.
    pub url: &'a str,
    /// The servers of `url`, whose commands are counted. PINGs go to the first one.
    pub servers: &'a [Server],
    /// The contender's name.
    pub name: &'a str,
    /// The number of processes.
    pub processes: usize,
    /// How long hand-offs are measured. After that, commands are counted for half of this time.
    pub span: Duration,
}

/// The median round trip of a PING on one multiplexed connection.
///
/// # Errors
/// If the server does not reply.
pub fn ping(server: &Server) -> Result<Ping> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let info: redis::ConnectionInfo = server.url().parse()?;
        let info = info.set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true));
        let mut connection = redis::Client::open(info)?.get_multiplexed_async_connection().await?;
        let mut median = async |times: u32, pause: Duration| {
            let mut samples = Vec::new();
            for _ in 0..times {
                thread::sleep(pause);
                let start = monotonic();
                let _pong: String = redis::cmd("PING").query_async(&mut connection).await?;
                samples.push(monotonic() - start);
            }
            Result::Ok(quantile(&mut samples, 0.5))
        };
        let rapid = median(2_000, Duration::ZERO).await?;
        Ok(Ping { paced: median(500, HOLD).await?, rapid })
    })
}

/// A process that is killed when this is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // Usually it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Worker {
    fn start(job: &Job) -> Result<Worker> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(Worker(command.args(job.to_args()).stdout(Stdio::piped()).spawn()?))
    }

    fn sections(&mut self) -> Result<Vec<Section>> {
        let mut bytes = Vec::new();
        let mut out = self.0.stdout.take().ok_or("a worker without output")?;
        std::io::Read::read_to_end(&mut out, &mut bytes)?;
        if self.0.wait()?.success() { Ok(Section::read_all(&bytes)) } else { Err("a worker failed".into()) }
    }
}

/// Starts the processes, waits for their end, and returns the results.
///
/// # Errors
/// The errors of the workers, or a server that does not reply.
pub fn run(plan: &Plan<'_>) -> Result<Figures> {
    let Plan { url, servers, name, processes, span } = *plan;
    let server = servers.first().ok_or("no server")?;
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let before = ping(server)?;
    // First comes the time to start and connect, then the time to settle, then the measured window, and then the window
    // in which commands are counted.
    let from = monotonic()
        + nanos(Duration::from_millis(300) + Duration::from_millis(50) * u32::try_from(processes)?);
    let timed = from + nanos(Duration::from_millis(500));
    let counted = timed + nanos(span);
    let until = counted + nanos(span / 2);
    let job = Job {
        name: name.to_owned(),
        url: url.to_owned(),
        key: format!("bench:shared:{from}"),
        hold: HOLD,
        think: THINK,
        from,
        until: until + nanos(Duration::from_millis(100)),
    };
    let workers = (0..processes).map(|_| Worker::start(&job)).collect::<Result<Vec<_>>>()?;
    let readers: Vec<_> =
        workers.into_iter().map(|mut worker| thread::spawn(move || worker.sections())).collect();
    sleep_until(counted);
    let count_from = monotonic();
    let counting = Counting::begin(servers)?;
    sleep_until(until);
    let commands = counting.end()?;
    let count_until = monotonic();
    let mut sections = Vec::new();
    for reader in readers {
        sections.push(reader.join().map_err(|_| "a reading thread panicked")??);
    }
    let ping = before.or_less(ping(server)?);
    Ok(figures(&sections, timed..counted, commands, count_from..count_until, ping))
}

fn figures(
    sections: &[Vec<Section>],
    timed: std::ops::Range<u64>,
    commands: u64,
    counted: std::ops::Range<u64>,
    ping: Ping,
) -> Figures {
    let mut all: Vec<Section> = sections.iter().flatten().copied().collect();
    all.sort_unstable_by_key(|section| section.start);
    let in_count = all.iter().filter(|section| counted.contains(&section.start)).count();
    let shares: Vec<u64> = sections
        .iter()
        .map(|own| own.iter().filter(|section| timed.contains(&section.start)).count() as u64)
        .collect();
    all.retain(|section| timed.contains(&section.start));
    let mut hand_offs: Vec<u64> =
        all.windows(2).map(|pair| pair[1].start.saturating_sub(pair[0].end)).collect();
    let mut waits: Vec<u64> = all.iter().map(|section| section.start - section.asked).collect();
    Figures {
        sections_per_second: all.len() as f64 / ((timed.end - timed.start) as f64 / 1e9),
        commands: commands as f64 / in_count.max(1) as f64,
        p50: quantile(&mut hand_offs, 0.5),
        p99: quantile(&mut hand_offs, 0.99),
        longest_gap: hand_offs.last().copied().unwrap_or(0),
        wait_p99: quantile(&mut waits, 0.99),
        longest_wait_to_mean: waits.iter().max().copied().unwrap_or(0) as f64 / mean(&waits),
        fairness: jain(&shares),
        ping,
    }
}
