//! One process: n tasks that each acquire the same key once.

use std::time::{Duration, Instant};

use distlock_benches::clock::monotonic;
use distlock_benches::contenders::{AsyncRedisLock, Distlock, Locks, Raw, Rlock, Rslock};
use distlock_benches::counting::Counting;
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::millis;
use distlock_benches::table::{Table, Verdicts, say};
use distlock_benches::{Result, join};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The intended duration of each hold.
const HOLD: Duration = Duration::from_millis(2);
const MANY: u32 = 5_000;

/// Holds for two milliseconds. (The thread sleeps, because tokio's timers would take up to a millisecond longer.)
async fn hold() -> Result<()> {
    Ok(spawn_blocking(|| std::thread::sleep(HOLD)).await?)
}

/// The real duration of a hold, one after the other, without any lock.
async fn bare_hold() -> Result<Duration> {
    const TIMES: u32 = 100;
    let start = Instant::now();
    for _ in 0..TIMES {
        // In a separate task, as with a lock.
        join(tokio::spawn(hold())).await?;
    }
    Ok(start.elapsed() / TIMES)
}

struct Outcome {
    total: Duration,
    /// The number of commands that the clients sent, without the handshakes of the connections.
    commands: u64,
}

async fn one_run<L: Locks>(server: &Server, n: u32, limit: Duration) -> Result<Option<Outcome>> {
    let locks = L::connect(&server.url()).await?;
    // Makes connections and loads scripts before the measurement.
    L::release(locks.acquire("bench:warm").await?).await?;
    let key = format!("bench:once:{}", monotonic());
    let counting = Counting::begin([server])?;
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..n {
        let (locks, key) = (locks.clone(), key.clone());
        tasks.spawn(async move {
            let guard = locks.acquire(&key).await?;
            hold().await?;
            L::release(guard).await
        });
    }
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Result::Ok(start.elapsed())
    };
    let total = timeout(limit, all).await;
    tasks.shutdown().await;
    let commands = counting.end()?;
    Ok(match total {
        Ok(total) => Some(Outcome { total: total?, commands }),
        Err(_) => None,
    })
}

struct Report<'a> {
    server: &'a Server,
    sizes: &'a [u32],
    limit: Duration,
    bare: Duration,
    table: Table,
    /// The results for charts.
    all: Vec<Value>,
}

impl Report<'_> {
    async fn add<L: Locks>(&mut self, most: u32) -> Result<Vec<(u32, f64, f64)>> {
        let mut ratios = Vec::new();
        let mut row = vec![L::NAME.to_owned()];
        for n in self.sizes.iter().copied() {
            if n > most {
                row.push("not run".to_owned());
                continue;
            }
            match one_run::<L>(self.server, n, self.limit).await? {
                Some(Outcome { total, commands }) => {
                    let ratio = total.as_secs_f64() / (self.bare.as_secs_f64() * f64::from(n));
                    let per_section = commands as f64 / f64::from(n);
                    row.push(format!("{ratio:.2} ×, {per_section:.2}"));
                    ratios.push((n, ratio, per_section));
                }
                None => row.push(format!("stopped after {} s", self.limit.as_secs())),
            }
        }
        self.table.row(row);
        let point = |(n, ratio, commands): &(u32, f64, f64)| json!({ "tasks": n, "to_ideal": ratio, "commands_per_section": commands });
        self.all.push(json!({ "name": L::NAME, "points": ratios.iter().map(point).collect::<Vec<_>>() }));
        Ok(ratios)
    }
}

pub(super) async fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say("one process, n tasks, each takes one key once …");
    let sizes = length.pick(&[20, 100, 500, MANY][..], &[20, 100, 500][..]);
    // With 5 000 tasks, each of the other libraries would take minutes.
    let most = length.pick(500, 100);
    let limit = length.pick(Duration::from_secs(60), Duration::from_secs(3));
    let mut head = vec!["total ÷ (n × hold), commands per section".to_owned()];
    head.extend(sizes.iter().map(|n| format!("n = {n}")));
    let bare = bare_hold().await?;
    let table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    let mut report = Report { server, sizes, limit, bare, table, all: Vec::new() };
    let ours = report.add::<Distlock>(MANY).await?;
    report.add::<Raw>(most).await?;
    report.add::<Rslock>(most).await?;
    report.add::<Rlock>(most).await?;
    report.add::<AsyncRedisLock>(most).await?;
    let after = bare_hold().await?;
    report.table.print(&format!(
        "One process, n tasks on one key, hold 2 ms (without any lock a hold took {} before and {} after)",
        millis(bare),
        millis(after)
    ));
    verdicts.keep("tasks", json!(report.all));
    for (n, ratio, commands) in ours {
        verdicts.at_most(format!("{n} tasks on one key: total ÷ (n × hold)"), ratio, 1.10);
        if n >= 100 {
            verdicts.at_most(format!("{n} tasks on one key: commands per section"), commands, 0.3);
        }
    }
    Ok(())
}
