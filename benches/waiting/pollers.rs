//! How long clients that poll wait for a key that distlock's processes keep busy, and the cost of the gaps for them.
//!
//! Two processes repeatedly acquire one key, and hold it for 2 ms, without a pause. On the same key, plain clients poll
//! with `SET NX PX`, one for each interval, and hold it for the same time. No wait is cancelled. Waits longer than a
//! time-out of 10 s are counted.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::quantile;
use distlock_benches::table::{Table, say};
use distlock_benches::{Result, join};

/// The first argument of a process that keeps the key busy.
pub(super) const COMMAND: &str = "--keep-busy";

const KEY: &str = "bench:polled";
const HOLD: Duration = Duration::from_millis(2);
const TTL: Duration = Duration::from_secs(10);
const PROCESSES: usize = 2;
const INTERVALS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(250),
];
/// The time-out of clients in other languages.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn measure(server: &Server, length: Length, runtime: &tokio::runtime::Runtime) -> Result<()> {
    let span = length.pick(Duration::from_secs(60), Duration::from_secs(10));
    let mut table =
        Table::new(&["gap", "poll interval", "waits", "median", "99 %", "longest", "longer than 10 s"]);
    let mut costs = Table::new(&["gap", "sections/s of two processes", "of those without gaps"]);
    let alone = keep_busy(server, Gap::None, span / 4, runtime, false)?.sections;
    costs.row(["none".to_owned(), format!("{alone:.0}"), "1.00".to_owned()]);
    for gap in [Gap::Default, Gap::Long] {
        let share = keep_busy(server, gap, span / 4, runtime, false)?.sections;
        costs.row([gap.to_string(), format!("{share:.0}"), format!("{:.2}", share / alone)]);
    }
    let seen = keep_busy(server, Gap::Default, span, runtime, true)?;
    for (interval, mut waits) in INTERVALS.into_iter().zip(seen.waits) {
        let late = waits.iter().filter(|wait| **wait > nanos(PATIENCE)).count();
        let seconds = |nanos: u64| format!("{:.1} s", nanos as f64 / 1e9);
        let longest = waits.iter().max().copied().unwrap_or(0);
        table.row([
            Gap::Default.to_string(),
            format!("{} ms", interval.as_millis()),
            waits.len().to_string(),
            seconds(quantile(&mut waits, 0.5)),
            seconds(quantile(&mut waits, 0.99)),
            seconds(longest),
            late.to_string(),
        ]);
    }
    costs.print("What gaps cost a key that two processes keep busy, hold 2 ms");
    table.print("Plain clients that poll for that key");
    Ok(())
}

/// How long a gap leaves the key free.
#[derive(Clone, Copy, Debug)]
enum Gap {
    None,
    Default,
    /// 20 ms.
    Long,
}

impl Gap {
    fn word(self) -> &'static str {
        match self {
            Gap::None => "none",
            Gap::Default => "default",
            Gap::Long => "20 ms",
        }
    }
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// The results.
struct Seen {
    /// The sections of all processes in a second.
    sections: f64,
    /// The waits of the clients that poll, in the order of [`INTERVALS`], in nanoseconds.
    waits: Vec<Vec<u64>>,
}

fn keep_busy(
    server: &Server,
    gap: Gap,
    span: Duration,
    runtime: &tokio::runtime::Runtime,
    polled: bool,
) -> Result<Seen> {
    say(format!("two processes for {} s, gap: {gap} …", span.as_secs()));
    let start = || -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.args([COMMAND, &server.url(), gap.word(), &span.as_millis().to_string()]);
        Ok(command.stdout(Stdio::piped()).spawn()?)
    };
    let processes = (0..PROCESSES).map(|_| start()).collect::<Result<Vec<_>>>()?;
    let waits = if polled { runtime.block_on(poll_all(&server.url(), span))? } else { Vec::new() };
    let mut sections = 0.0;
    for process in processes {
        let output = process.wait_with_output()?;
        if !output.status.success() {
            return Err("a process that keeps the key busy failed".into());
        }
        sections += String::from_utf8(output.stdout)?.trim().parse::<f64>()? / span.as_secs_f64();
    }
    Ok(Seen { sections, waits })
}

/// The process, which prints its number of sections.
pub(super) fn run(mut args: impl Iterator<Item = String>) -> Result<()> {
    let mut next = || args.next().ok_or("a process's arguments are incomplete");
    let (url, gap, span) = (next()?, next()?, Duration::from_millis(next()?.parse()?));
    let builder = LockManager::builder().url(url).default_wait(Duration::from_secs(60));
    let builder = match gap.as_str() {
        "none" => builder.fairness_gap(Duration::ZERO),
        "default" => builder,
        _ => builder.fairness_gap(Duration::from_millis(20)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sections = runtime.block_on(async {
        let manager = builder.connect().await?;
        let (start, mut sections) = (Instant::now(), 0_u64);
        while start.elapsed() < span {
            let guard = manager.lock(KEY).acquire().await?;
            std::thread::sleep(HOLD);
            guard.release().await?;
            sections += 1;
        }
        Result::Ok(sections)
    })?;
    say(sections);
    Ok(())
}

async fn poll_all(url: &str, span: Duration) -> Result<Vec<Vec<u64>>> {
    let until = Instant::now() + span;
    let tasks: Vec<_> =
        INTERVALS.into_iter().map(|interval| tokio::spawn(poll(url.to_owned(), interval, until))).collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.push(join(task).await?);
    }
    Ok(waits)
}

/// Acquires the key as often as possible. A wait that is not over at the end counts with its length so far.
async fn poll(url: String, interval: Duration, until: Instant) -> Result<Vec<u64>> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let token = format!("poller:{}", interval.as_millis());
    let release =
        redis::Script::new("return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])");
    let mut waits = Vec::new();
    while Instant::now() < until {
        let start = Instant::now();
        let taken = loop {
            let mut set = redis::cmd("SET");
            set.arg(KEY).arg(&token).arg("NX").arg("PX").arg(TTL.as_millis());
            let answer: Option<String> = set.query_async(&mut connection).await?;
            if answer.is_some() || Instant::now() >= until {
                break answer.is_some();
            }
            tokio::time::sleep(interval).await;
        };
        waits.push(nanos(start.elapsed()));
        if taken {
            tokio::time::sleep(HOLD).await;
            let _done: Option<i64> = release.key(KEY).arg(&token).invoke_async(&mut connection).await?;
            // Continues at another point of its interval than the successful one.
            tokio::time::sleep(interval.mul_f64(fastrand::f64())).await;
        }
    }
    Ok(waits)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
