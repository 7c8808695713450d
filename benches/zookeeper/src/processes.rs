//! Eight processes on one key: hold 0.5 ms, think 1 ms. A hand-off is the time from the instant before a holder sends
//! its release until the next one is in, if that one waited already.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use distlock_fixtures::ZooKeeperServers;

use crate::clock::{micros, monotonic, sleep_until};
use crate::contenders::{Distlock, Locks, RawNode, Recipe};
use crate::{Result, requests};

pub(crate) const WORKER: &str = "--worker";
const PROCESSES: usize = 8;
const SPAN: Duration = Duration::from_secs(8);
const HOLD: Duration = Duration::from_micros(500);
const THINK: Duration = Duration::from_millis(1);

pub(crate) fn measure(server: &ZooKeeperServers) -> Result<()> {
    println!("\n**{PROCESSES} processes on one key, hold 0.5 ms, think 1 ms**\n");
    println!(
        "| lock | requests per section | hand-off p50 | p99 | longest | sections per s | fairness |\n|-|-|-|-|-|-|-|"
    );
    for name in [Distlock::NAME, Recipe::NAME, RawNode::NAME] {
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let from = monotonic() + nanos(Duration::from_secs(2));
        let until = from + nanos(SPAN);
        let mut workers = Vec::new();
        for _ in 0..PROCESSES {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([WORKER, name, &server.address(0), &from.to_string(), &until.to_string()]);
            workers.push(command.stdout(Stdio::piped()).spawn()?);
        }
        sleep_until(from);
        let before = requests(server);
        sleep_until(until);
        let count = requests(server) - before;
        let (mut all, mut shares) = (Vec::new(), Vec::new());
        for mut worker in workers {
            let out = BufReader::new(worker.stdout.take().ok_or("a worker without output")?);
            let first = all.len();
            for line in out.lines() {
                let line = line?;
                let times: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
                let [asked, start, end] = times[..] else { return Err(format!("`{line}`").into()) };
                all.push((start, asked, end));
            }
            shares.push((all.len() - first) as f64);
            if !worker.wait()?.success() {
                return Err("a worker failed".into());
            }
        }
        all.sort_unstable();
        let overlaps = all.windows(2).filter(|pair| pair[1].0 < pair[0].2).count();
        let waited = |pair: &&[(u64, u64, u64)]| pair[1].1 < pair[0].2;
        let mut hand_offs: Vec<u64> =
            all.windows(2).filter(waited).map(|pair| pair[1].0.saturating_sub(pair[0].2)).collect();
        let sum: f64 = shares.iter().sum();
        let fairness = sum * sum / (shares.len() as f64 * shares.iter().map(|it| it * it).sum::<f64>());
        println!(
            "| {name} | {:.2} | {} µs | {} µs | {} µs | {:.0} | {fairness:.3} |{}",
            count as f64 / all.len() as f64,
            micros(&mut hand_offs, 0.5),
            micros(&mut hand_offs, 0.99),
            micros(&mut hand_offs, 1.0),
            all.len() as f64 / SPAN.as_secs_f64(),
            if overlaps > 0 { format!(" **{overlaps} OVERLAPS**") } else { String::new() }
        );
    }
    Ok(())
}

/// The whole life of a worker: a line for each section, with the times of asking, of entering and of leaving.
pub(crate) fn work(arguments: &[String]) -> Result<()> {
    let [name, address, from, until] = arguments else { return Err("a worker's arguments".into()) };
    let (from, until) = (from.parse()?, until.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sections = runtime.block_on(async {
        match name.as_str() {
            Distlock::NAME => take_turns(Distlock::connect(address).await?, from, until).await,
            Recipe::NAME => take_turns(Recipe::connect(address).await?, from, until).await,
            RawNode::NAME => take_turns(RawNode::connect(address).await?, from, until).await,
            other => Err(format!("nobody is called `{other}`").into()),
        }
    })?;
    for (asked, start, end) in sections {
        println!("{asked} {start} {end}");
    }
    Ok(())
}

async fn take_turns<L: Locks>(locks: L, from: u64, until: u64) -> Result<Vec<(u64, u64, u64)>> {
    let mut sections = Vec::new();
    sleep_until(from + fastrand::u64(0..1_000_000));
    while monotonic() < until {
        let asked = monotonic();
        let guard = locks.acquire("shared").await?;
        let start = monotonic();
        std::thread::sleep(HOLD);
        let end = monotonic();
        sections.push((asked, start, end));
        L::release(guard).await?;
        std::thread::sleep(THINK);
    }
    Ok(sections)
}
