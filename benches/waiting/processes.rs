//! Several processes on one key: commands, the time of a hand-off, fairness.
//!
//! A hand-off is the time from the instant before a holder sends its release until the next holder's section
//! begins, in whichever process. The yardstick is the round trip of a PING of one quiet client, measured in
//! the same run before and after, and like a hand-off after a pause: whoever pings without one keeps the cores
//! awake and finds answers in half the time. That figure is printed too.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use distlock_benches::Result;
use distlock_benches::clock::{monotonic, sleep_until};
use distlock_benches::contenders::{AsyncRedisLock, Distlock, Locks, Raw, Rlock, Rslock, WithoutGaps};
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::{jain, mean, micros, quantile};
use distlock_benches::table::{Table, Verdicts, say};

use crate::worker::{Job, Section};

const HOLD: Duration = Duration::from_micros(500);
const THINK: Duration = Duration::from_millis(1);

/// What one contender did.
struct Figures {
    sections_per_second: f64,
    commands: f64,
    /// Nanoseconds.
    p50: u64,
    p99: u64,
    longest_gap: u64,
    longest_wait_to_mean: f64,
    fairness: f64,
    ping: Ping,
}

/// Round trips of a PING, nanoseconds, median.
#[derive(Clone, Copy)]
struct Ping {
    /// Each after as long a pause as a section.
    paced: u64,
    /// One after the other.
    rapid: u64,
}

impl Ping {
    fn or_less(self, other: Ping) -> Ping {
        Ping { paced: self.paced.min(other.paced), rapid: self.rapid.min(other.rapid) }
    }
}

impl Figures {
    fn p50_in_pings(&self) -> f64 {
        self.p50 as f64 / self.ping.paced as f64
    }

    fn p99_in_pings(&self) -> f64 {
        self.p99 as f64 / self.ping.paced as f64
    }
}

/// The median round trip of a PING on one multiplexed connection.
fn ping(server: &Server) -> Result<Ping> {
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

/// Ends with its owner, whatever happens.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // Usually it has ended by itself.
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

fn one_run(server: &Server, name: &str, processes: usize, span: Duration) -> Result<Figures> {
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let before = ping(server)?;
    // Time to start and connect; then, to settle; the timed window; and one in which commands are counted.
    let from = monotonic()
        + nanos(Duration::from_millis(300) + Duration::from_millis(50) * u32::try_from(processes)?);
    let timed = from + nanos(Duration::from_millis(500));
    let counted = timed + nanos(span);
    let until = counted + nanos(span / 2);
    let job = Job {
        name: name.to_owned(),
        url: server.url(),
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
    let counting = server.count_commands()?;
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
    let waits: Vec<u64> = all.iter().map(|section| section.start - section.asked).collect();
    Figures {
        sections_per_second: all.len() as f64 / ((timed.end - timed.start) as f64 / 1e9),
        commands: commands as f64 / in_count.max(1) as f64,
        p50: quantile(&mut hand_offs, 0.5),
        p99: quantile(&mut hand_offs, 0.99),
        longest_gap: hand_offs.last().copied().unwrap_or(0),
        longest_wait_to_mean: waits.iter().max().copied().unwrap_or(0) as f64 / mean(&waits),
        fairness: jain(&shares),
        ping,
    }
}

pub(super) fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    let span = length.pick(Duration::from_secs(8), Duration::from_secs(1));
    let mut table = Table::new(&[
        "processes on one key",
        "commands per section",
        "hand-off p50",
        "p99",
        "in PINGs: p50",
        "p99",
        "in rapid PINGs: p50",
        "longest gap",
        "longest wait ÷ mean",
        "fairness",
        "sections/s",
    ]);
    let runs = [
        (8, Distlock::NAME),
        (32, Distlock::NAME),
        (8, Raw::NAME),
        (8, Rslock::NAME),
        (8, WithoutGaps::NAME),
        (32, WithoutGaps::NAME),
        (8, Rlock::NAME),
        (8, AsyncRedisLock::NAME),
    ];
    for (processes, name) in runs.into_iter().take(length.pick(runs.len(), 5)) {
        let f = one_run(server, name, processes, span)?;
        say(format!(
            "{processes} processes on one key, {name}: {:.2} commands per section, hand-off {:.1} PINGs of {}",
            f.commands,
            f.p50_in_pings(),
            micros(f.ping.paced as f64)
        ));
        let ms = |nanos: u64| format!("{:.3} ms", nanos as f64 / 1e6);
        table.row([
            format!("{processes}, {name}"),
            format!("{:.2}", f.commands),
            ms(f.p50),
            ms(f.p99),
            format!("{:.1}", f.p50_in_pings()),
            format!("{:.1}", f.p99_in_pings()),
            format!("{:.1}", f.p50 as f64 / f.ping.rapid as f64),
            ms(f.longest_gap),
            format!("{:.1}", f.longest_wait_to_mean),
            format!("{:.3}", f.fairness),
            format!("{:.0}", f.sections_per_second),
        ]);
        if name == Distlock::NAME || name == WithoutGaps::NAME {
            let what = |figure: &str| format!("{processes} processes, {name}: {figure}");
            verdicts.at_most(what("commands per section"), f.commands, 2.3);
            verdicts.at_most(what("hand-off p50 ÷ PING"), f.p50_in_pings(), 2.0);
            if processes == 8 {
                verdicts.at_most(what("hand-off p99 ÷ PING"), f.p99_in_pings(), 15.0);
            }
            verdicts.at_most(what("longest wait ÷ mean"), f.longest_wait_to_mean, 3.0);
            verdicts.at_least(what("fairness (Jain)"), f.fairness, 0.99);
        }
    }
    table.print("Several processes, one key, hold 0.5 ms, think 1 ms");
    Ok(())
}
