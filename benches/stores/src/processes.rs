//! Eight processes on one key: hold 0.5 ms, think 1 ms. A hand-off is the time from the instant before a holder sends
//! its release until the next holder has the lock, if that one was already waiting.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::clock::{micros, monotonic, sleep_until};
use crate::locks::{Contender, Locks, Place, with_contender};
use crate::report::{Part, Row};

pub(crate) const WORKER: &str = "--worker";
pub(crate) const PROCESSES: usize = 8;
pub(crate) const SPAN: Duration = Duration::from_secs(8);
pub(crate) const HOLD: Duration = Duration::from_micros(500);
pub(crate) const THINK: Duration = Duration::from_millis(1);

pub(crate) async fn processes(place: &Place<'_>) -> Result<Part> {
    let mut rows = Vec::new();
    for contender in place.queues {
        let from = monotonic() + nanos(Duration::from_secs(2));
        let until = from + nanos(SPAN);
        let mut workers = Vec::new();
        for number in 0..PROCESSES {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([WORKER, contender.name(), place.url(*contender), &format!("worker{number}")]);
            workers.push(command.args([from.to_string(), until.to_string()]).stdout(Stdio::piped()).spawn()?);
        }
        // The measurement excludes the times in which the workers connect and end.
        sleep_until(from);
        let before = place.server.requests().await?;
        sleep_until(until);
        let requests = place.server.requests().await? - before;
        let shares: Vec<_> = workers.into_iter().map(sections).collect::<Result<_>>()?;
        rows.push(row(*contender, &shares, requests));
    }
    let title = format!("{PROCESSES} processes on one key, hold 0.5 ms, think 1 ms");
    Ok(Part { place: place.name, title, rows })
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// When it had the lock, when it had asked, and when it released the lock.
type Section = (u64, u64, u64);

pub(crate) fn sections(mut worker: Child) -> Result<Vec<Section>> {
    let out = BufReader::new(worker.stdout.take().ok_or("a worker without output")?);
    let mut all = Vec::new();
    for line in out.lines() {
        let line = line?;
        let times: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [asked, start, end] = times[..] else { return Err(format!("`{line}`").into()) };
        all.push((start, asked, end));
    }
    if worker.wait()?.success() { Ok(all) } else { Err("a worker failed".into()) }
}

fn row(contender: Contender, shares: &[Vec<Section>], requests: u64) -> Row {
    let mut all = shares.concat();
    all.sort_unstable();
    let overlaps = all.windows(2).filter(|pair| pair[1].0 < pair[0].2).count();
    let waited = |pair: &&[Section]| pair[1].1 < pair[0].2;
    let mut hand_offs: Vec<u64> =
        all.windows(2).filter(waited).map(|pair| pair[1].0.saturating_sub(pair[0].2)).collect();
    let sums: Vec<f64> = shares.iter().map(|share| share.len() as f64).collect();
    let sum: f64 = sums.iter().sum();
    let fairness = sum * sum / (sums.len() as f64 * sums.iter().map(|it| it * it).sum::<f64>());
    let mut micros = |share| micros(&mut hand_offs, share) as f64;
    let figures = vec![
        ("requests per section", requests as f64 / all.len() as f64),
        ("hand-off p50 µs", micros(0.5)),
        ("p99 µs", micros(0.99)),
        ("longest µs", micros(1.0)),
        ("sections per s", all.len() as f64 / SPAN.as_secs_f64()),
        ("fairness", fairness),
        ("overlaps", overlaps as f64),
    ];
    Row { who: contender.name(), figures }
}

/// The whole life of a worker: a line for each section, with the times of the request, of the lock and of the release.
pub(crate) async fn work(arguments: &[String]) -> Result<()> {
    let [who, url, name, from, until] = arguments else { return Err("a worker's arguments".into()) };
    let (from, until) = (from.parse()?, until.parse()?);
    let contender = Contender::ALL.iter().find(|contender| contender.name() == who);
    let contender = contender.ok_or_else(|| format!("nobody is called `{who}`"))?;
    let sections = with_contender!(*contender, url, name, locks => turns(locks, from, until).await?);
    print(&sections);
    Ok(())
}

async fn turns<L: Locks>(locks: L, from: u64, until: u64) -> Result<Vec<Section>> {
    take_turns::<L>(async || locks.acquire("bench/shared").await, from, until).await
}

pub(crate) fn print(sections: &[Section]) {
    for (start, asked, end) in sections {
        println!("{asked} {start} {end}");
    }
}

pub(crate) async fn take_turns<L: Locks>(
    acquire: impl AsyncFn() -> Result<L::Guard>,
    from: u64,
    until: u64,
) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    sleep_until(from + fastrand::u64(0..1_000_000));
    while monotonic() < until {
        let asked = monotonic();
        let guard = acquire().await?;
        let start = monotonic();
        std::thread::sleep(HOLD);
        let end = monotonic();
        sections.push((start, asked, end));
        L::release(guard).await?;
        std::thread::sleep(THINK);
    }
    Ok(sections)
}
