//! A process keeps a lock between its sections (`linger`): what a section costs that comes back, and how soon another
//! process gets in.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_benches::Result;
use distlock_benches::clock::monotonic;
use distlock_benches::contenders::{Locks, Raw, TTL};
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::{micros, quantile};
use distlock_benches::table::{Table, Verdicts, say};

const LINGER: Duration = Duration::from_millis(50);

async fn connect(server: &Server) -> Result<LockManager> {
    Ok(LockManager::builder().url(server.url()).default_ttl(TTL).connect().await?)
}

/// Commands that the server has carried out, those of this question aside.
fn commands(server: &Server) -> Result<u64> {
    let info = server.control()?.call("INFO commandstats")?;
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let counts = !["info", "ping", "client", "hello"].contains(&name);
        let calls = rest.strip_prefix("calls=")?.split(',').next()?.parse::<u64>().ok()?;
        counts.then_some(calls)
    };
    Ok(info.lines().filter_map(calls).sum())
}

/// One section after the other, from one task: how long each took, and sections per second.
async fn sections(
    manager: &LockManager,
    key: &str,
    linger: Duration,
    count: usize,
) -> Result<(Vec<u64>, f64)> {
    let mut samples = Vec::with_capacity(count);
    let began = Instant::now();
    for _ in 0..count {
        let start = monotonic();
        manager.lock(key).linger(linger).acquire().await?.release().await?;
        samples.push(monotonic() - start);
    }
    Ok((samples, count as f64 / began.elapsed().as_secs_f64()))
}

/// How long another process waits for a lock that lingers.
async fn hand_over(one: &LockManager, other: &LockManager, rounds: usize) -> Result<Vec<u64>> {
    let mut waits = Vec::new();
    for round in 0..rounds {
        let key = format!("bench:linger:over:{round}");
        one.lock(&*key).linger(Duration::from_secs(10)).acquire().await?.release().await?;
        let start = monotonic();
        let guard = other.lock(&*key).linger(LINGER).wait_forever().acquire().await?;
        waits.push(monotonic() - start);
        guard.release().await?;
    }
    Ok(waits)
}

async fn pings(server: &Server, rounds: usize) -> Result<Vec<u64>> {
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut samples = Vec::new();
    for _ in 0..rounds {
        let start = monotonic();
        redis::cmd("PING").query_async::<String>(&mut connection).await?;
        samples.push(monotonic() - start);
    }
    Ok(samples)
}

async fn raw(server: &Server, count: usize) -> Result<(Vec<u64>, f64)> {
    let raw = Raw::connect(&server.url()).await?;
    let mut samples = Vec::new();
    let began = Instant::now();
    for _ in 0..count {
        let start = monotonic();
        Raw::release(raw.acquire("bench:linger:raw").await?).await?;
        samples.push(monotonic() - start);
    }
    Ok((samples, count as f64 / began.elapsed().as_secs_f64()))
}

pub(super) async fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say("sections that come back …");
    let (one, other) = (connect(server).await?, connect(server).await?);
    // Commands: within one time of lingering, after the first section.
    sections(&one, "bench:linger:count", Duration::from_secs(10), 1).await?;
    let before = commands(server)?;
    sections(&one, "bench:linger:count", Duration::from_secs(10), 1_000).await?;
    let sent = commands(server)? - before;

    let count = length.pick(3_000_000, 500_000);
    let spawned = one.clone();
    let task = async move {
        sections(&spawned, "bench:linger:back", LINGER, count).await.map_err(|e| e.to_string())
    };
    let (mut back, per_second) = tokio::spawn(task).await??;
    let (mut base, raw_per_second) = raw(server, length.pick(20_000, 4_000)).await?;
    let rounds = length.pick(2_000, 400);
    let mut ping = pings(server, rounds).await?;
    let mut over = hand_over(&one, &other, rounds).await?;

    let mut table = Table::new(&["", "p50", "p99", "sections/s"]);
    let mut row = |name: &str, samples: &mut [u64], rate: Option<f64>| {
        let [p50, p99] = [0.5, 0.99].map(|share| quantile(samples, share) as f64);
        let rate = rate.map_or(String::new(), |rate| format!("{rate:.0}"));
        table.row([name.to_owned(), micros(p50), micros(p99), rate]);
        p50
    };
    let back = row("a section that comes back", &mut back, Some(per_second));
    let base = row("raw client, one task", &mut base, Some(raw_per_second));
    let ping = row("PING", &mut ping, None);
    let over = row("another process gets a lock that lingers", &mut over, None);
    table.print("Locks that stay with their process for 50 ms");
    verdicts.at_most("linger: commands of 1 000 sections that come back", sent as f64, 0.0);
    verdicts.at_most("linger: p50 of a section that comes back, in µs", back / 1_000.0, 2.0);
    verdicts.at_least("linger: sections/s from one task", per_second, 500_000.0);
    verdicts.at_most("linger: p50 of a section ÷ raw", back / base, 0.1);
    verdicts.at_most("linger: p50 of the hand-over ÷ PING", over / ping, 3.0);
    Ok(())
}
