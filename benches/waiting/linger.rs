//! A process keeps a lock between its sections (`linger`). This measures the cost of its next section, and how soon
//! others get the lock: another process, another process without pushes, and a client that polls.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_benches::clock::monotonic;
use distlock_benches::contenders::{Locks, Raw, TTL};
use distlock_benches::counting::Counting;
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::{micros, quantile};
use distlock_benches::table::{Table, Verdicts, say};
use distlock_benches::{Result, join};

const LINGER: Duration = Duration::from_millis(50);
/// The maximum of the option.
const LONG: Duration = Duration::from_secs(10);
/// As long as a section of `processes`, so the others are idle at a request.
const PAUSE: Duration = Duration::from_micros(500);
/// How often the client polls.
const POLL: Duration = Duration::from_millis(1);

async fn connect(url: &str) -> Result<LockManager> {
    Ok(LockManager::builder().url(url).default_ttl(TTL).connect().await?)
}

async fn section(manager: &LockManager, key: &str, linger: Duration) -> Result<()> {
    Ok(manager.lock(key).linger(linger).acquire().await?.release().await?)
}

/// Runs one section after the other, from one task. Returns the time of each, and the sections per second.
async fn sections(
    manager: LockManager,
    key: &'static str,
    linger: Duration,
    count: usize,
) -> Result<(Vec<u64>, f64)> {
    let mut samples = Vec::with_capacity(count);
    let began = Instant::now();
    for _ in 0..count {
        let start = monotonic();
        section(&manager, key, linger).await?;
        samples.push(monotonic() - start);
    }
    Ok((samples, count as f64 / began.elapsed().as_secs_f64()))
}

/// The sections of a plain client, for comparison.
async fn raw(server: &Server, count: usize) -> Result<(Vec<u64>, f64)> {
    let raw = Raw::connect(&server.url()).await?;
    let mut samples = Vec::with_capacity(count);
    let began = Instant::now();
    for _ in 0..count {
        let start = monotonic();
        Raw::release(raw.acquire("bench:linger:raw").await?).await?;
        samples.push(monotonic() - start);
    }
    Ok((samples, count as f64 / began.elapsed().as_secs_f64()))
}

/// How long another process waits for a lock that lingers, and the round trips of PINGs meanwhile.
async fn hand_over(
    (one, other): (&LockManager, &LockManager),
    server: &Server,
    linger: Duration,
    rounds: usize,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let (mut waits, mut pings) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let key = format!("bench:linger:over:{}:{round}", linger.as_millis());
        section(one, &key, linger).await?;
        std::thread::sleep(PAUSE);
        let start = monotonic();
        let guard = other.lock(&*key).linger(LINGER).wait_forever().acquire().await?;
        waits.push(monotonic() - start);
        guard.release().await?;
        std::thread::sleep(PAUSE);
        let start = monotonic();
        redis::cmd("PING").query_async::<String>(&mut connection).await?;
        pings.push(monotonic() - start);
    }
    Ok((waits, pings))
}

/// A user without the permission to publish, so no client receives its pushes.
fn silenced(server: &Server) -> Result<String> {
    server.control()?.call("ACL SETUSER silenced on nopass allkeys allchannels +@all -publish")?;
    Ok(format!("redis://silenced:any@{}", server.address()))
}

/// How long a client polls until it gets a lock that lingers.
async fn polled(one: &LockManager, server: &Server, rounds: usize) -> Result<Vec<u64>> {
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let mut waits = Vec::new();
    for round in 0..rounds {
        let key = format!("bench:linger:polled:{round}");
        section(one, &key, LINGER).await?;
        let start = monotonic();
        loop {
            let mut set = redis::cmd("SET");
            set.arg(&key).arg("foreign").arg("NX").arg("PX").arg(1_000);
            if set.query_async::<Option<String>>(&mut connection).await?.is_some() {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        waits.push(monotonic() - start);
        redis::cmd("DEL").arg(&key).query_async::<()>(&mut connection).await?;
    }
    Ok(waits)
}

/// The number of commands of a thousand sections, each within the linger time of the previous one.
async fn commands(manager: &LockManager, server: &Server) -> Result<u64> {
    sections(manager.clone(), "bench:linger:count", LONG, 1).await?;
    let counting = Counting::begin([server])?;
    sections(manager.clone(), "bench:linger:count", LONG, 1_000).await?;
    counting.end()
}

pub(super) async fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say("sections that come back …");
    let (one, other) = (connect(&server.url()).await?, connect(&server.url()).await?);
    let sent = commands(&one, server).await?;
    let count = length.pick(3_000_000, 1_000_000);
    let (back, per_second) =
        join(tokio::spawn(sections(one.clone(), "bench:linger:back", LINGER, count))).await?;
    let (base, raw_per_second) = raw(server, length.pick(20_000, 4_000)).await?;
    say("others who want a lock that lingers …");
    let (over, pings) = hand_over((&one, &other), server, LONG, length.pick(2_000, 400)).await?;
    let url = silenced(server)?;
    let (one_unheard, other_unheard) = (connect(&url).await?, connect(&url).await?);
    let (unheard, _) =
        hand_over((&one_unheard, &other_unheard), server, LINGER, length.pick(100, 30)).await?;
    let polled = polled(&one, server, length.pick(100, 30)).await?;

    let mut table = Table::new(&["", "p50", "p99", "longest", "sections/s"]);
    let mut row = |name: &str, mut samples: Vec<u64>, rate: Option<f64>| {
        let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|share| quantile(&mut samples, share) as f64);
        let rate = rate.map_or(String::new(), |rate| format!("{rate:.0}"));
        table.row([name.to_owned(), micros(p50), micros(p99), micros(longest), rate]);
        p50
    };
    let back = row("a section that comes back", back, Some(per_second));
    let base = row("raw client, one task", base, Some(raw_per_second));
    let ping = row("PING", pings, None);
    let over = row("another process gets a lock that lingers for 10 s", over, None);
    let unheard = row("every push lost: another process gets a lock that lingers for 50 ms", unheard, None);
    let polled = row("a client that polls each millisecond gets it", polled, None);
    table.print("Locks that stay with their process");
    let in_lingers = |wait: f64| wait / LINGER.as_nanos() as f64;
    verdicts.at_most("linger: commands of 1 000 sections that come back", sent as f64, 0.0);
    verdicts.at_most("linger: p50 of a section that comes back, in µs", back / 1_000.0, 2.0);
    verdicts.at_least("linger: sections/s from one task", per_second, 500_000.0);
    verdicts.at_most("linger: p50 of a section ÷ raw", back / base, 0.1);
    verdicts.at_most("linger: p50 of the hand-over ÷ PING", over / ping, 3.0);
    verdicts.at_most(
        "linger: p50 with every push lost, less a PING, ÷ linger",
        in_lingers(unheard - ping),
        1.0,
    );
    verdicts.at_most("linger: p50 of a client that polls ÷ linger", in_lingers(polled), 1.0);
    Ok(())
}
