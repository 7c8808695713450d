//! What a lock costs when nobody else wants it: against the raw client, in one process and one run.
//!
//! `cargo bench -p distlock-benches --bench foundation [-- --quick]`
//!
//! Every round measures every contender, one right after the other; a ratio is taken within a round, and the
//! median over the rounds is what counts. So a busy machine makes the rounds differ, not the ratio.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use distlock::{LockManager, distributed_lock};
use distlock_benches::clock::{cpu_time, monotonic};
use distlock_benches::contenders::{Distlock, Locks, Raw};
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::{median, micros, quantile};
use distlock_benches::table::{Table, Verdicts, say};
use distlock_benches::{Result, join};

const TASKS: u64 = 64;
/// With one task the contenders take turns after so many locks: then they find the same machine.
const SLICE: u64 = 50;

/// Takes a lock, does nothing, gives it back.
trait Section: Clone + Send + Sync + 'static {
    const NAME: &'static str;
    fn section(&self, id: u64) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Clone)]
struct ByHand<L>(L);

impl<L: Locks> Section for ByHand<L> {
    const NAME: &'static str = L::NAME;

    async fn section(&self, id: u64) -> Result<()> {
        L::release(self.0.acquire(&format!("bench:{id}")).await?).await
    }
}

/// The same as an annotated method.
#[derive(Clone)]
struct Annotated {
    locks: LockManager,
}

impl Annotated {
    #[distributed_lock(key = "bench:<id>", manager = self.locks)]
    async fn locked(&self, id: u64) -> Result<()> {
        Ok(())
    }
}

impl Section for Annotated {
    const NAME: &'static str = "distlock, annotated function";

    async fn section(&self, id: u64) -> Result<()> {
        self.locked(id).await
    }
}

/// One contender in one round.
#[derive(Clone, Copy, Debug)]
struct Figures {
    p50: u64,
    p99: u64,
    /// Client CPU per lock, nanoseconds, one task.
    cpu_alone: f64,
    per_second: f64,
    /// The same with many tasks.
    cpu_many: f64,
}

struct Plan {
    rounds: usize,
    sequential: u64,
    many: Duration,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Something that was never locked before.
fn fresh() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// One task, one lock after the other.
#[derive(Default)]
struct Alone {
    samples: Vec<u64>,
    cpu: Duration,
}

impl Alone {
    async fn add<S: Section>(&mut self, contender: &S) -> Result<()> {
        let cpu = cpu_time();
        for _ in 0..SLICE {
            let start = monotonic();
            contender.section(fresh()).await?;
            self.samples.push(monotonic() - start);
        }
        self.cpu += cpu_time() - cpu;
        Ok(())
    }
}

async fn with_many<S: Section>(contender: &S, plan: &Plan, mut alone: Alone) -> Result<Figures> {
    let done = Arc::new(AtomicU64::new(0));
    let (start, cpu) = (Instant::now(), cpu_time());
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (contender, done, many) = (contender.clone(), done.clone(), plan.many);
            tokio::spawn(async move {
                while start.elapsed() < many {
                    contender.section(fresh()).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        })
        .collect();
    for task in tasks {
        join(task).await?;
    }
    let done = done.load(Ordering::Relaxed) as f64;
    Ok(Figures {
        p50: quantile(&mut alone.samples, 0.5),
        p99: quantile(&mut alone.samples, 0.99),
        cpu_alone: alone.cpu.as_nanos() as f64 / alone.samples.len() as f64,
        per_second: done / start.elapsed().as_secs_f64(),
        cpu_many: (cpu_time() - cpu).as_nanos() as f64 / done,
    })
}

/// The rounds of one contender.
struct Results {
    name: &'static str,
    rounds: Vec<Figures>,
}

impl Results {
    fn new<S: Section>(_: &S) -> Results {
        Results { name: S::NAME, rounds: Vec::new() }
    }

    fn median(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        median(&mut self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    fn ratio(&self, raw: &Results, of: impl Fn(&Figures) -> f64) -> f64 {
        median(&mut self.rounds.iter().zip(&raw.rounds).map(|(a, b)| of(a) / of(b)).collect::<Vec<_>>())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let length = Length::from_args();
    let plan = Plan {
        rounds: length.pick(15, 5),
        sequential: length.pick(4_000, 1_500),
        many: length.pick(Duration::from_millis(700), Duration::from_millis(300)),
    };
    let server = Server::start();
    let raw = ByHand(Raw::connect(&server.url()).await?);
    let ours = ByHand(Distlock::connect(&server.url()).await?);
    let annotated = Annotated { locks: ours.0.0.clone() };
    let mut results = [Results::new(&raw), Results::new(&ours), Results::new(&annotated)];
    say(format!(
        "uncontended: {} rounds, {} locks one after the other and {:?} with {TASKS} tasks in each",
        plan.rounds, plan.sequential, plan.many
    ));
    for round in 0..=plan.rounds {
        let [mut a, mut b, mut c] = <[Alone; 3]>::default();
        for _ in 0..plan.sequential / SLICE {
            a.add(&raw).await?;
            b.add(&ours).await?;
            c.add(&annotated).await?;
        }
        // The order alternates, so that nobody always comes after the same neighbour.
        let figures = if round % 2 == 0 {
            let raw = with_many(&raw, &plan, a).await?;
            let ours = with_many(&ours, &plan, b).await?;
            [raw, ours, with_many(&annotated, &plan, c).await?]
        } else {
            let annotated = with_many(&annotated, &plan, c).await?;
            let ours = with_many(&ours, &plan, b).await?;
            [with_many(&raw, &plan, a).await?, ours, annotated]
        };
        // The first round warms up.
        if round > 0 {
            for (results, figures) in results.iter_mut().zip(figures) {
                results.rounds.push(figures);
            }
        }
    }
    report(&results, &server.machine()?, length);
    Ok(())
}

fn report(results: &[Results], machine: &str, length: Length) {
    let [raw, others @ ..] = results else { return };
    let mut table = Table::new(&[
        "medians of the rounds",
        "p50",
        "p99",
        "CPU per lock",
        "64 tasks, distinct keys",
        "CPU per lock",
    ]);
    for one in results {
        table.row([
            one.name.to_owned(),
            micros(one.median(|f| f.p50 as f64)),
            micros(one.median(|f| f.p99 as f64)),
            micros(one.median(|f| f.cpu_alone)),
            format!("{:.0} locks/s", one.median(|f| f.per_second)),
            micros(one.median(|f| f.cpu_many)),
        ]);
    }
    for one in others {
        let ratio = |of: fn(&Figures) -> f64| format!("{:.2} ×", one.ratio(raw, of));
        table.row([
            format!("{} ÷ raw", one.name),
            ratio(|f| f.p50 as f64),
            ratio(|f| f.p99 as f64),
            ratio(|f| f.cpu_alone),
            ratio(|f| f.per_second),
            ratio(|f| f.cpu_many),
        ]);
    }
    table.print("Uncontended");
    let mut verdicts = Verdicts::default();
    for one in others {
        verdicts.at_most(format!("{}: p50 ÷ raw", one.name), one.ratio(raw, |f| f.p50 as f64), 1.15);
        verdicts.at_least(
            format!("{}: throughput of 64 tasks ÷ raw", one.name),
            one.ratio(raw, |f| f.per_second),
            0.85,
        );
    }
    let quick = length.pick("", " -- --quick");
    verdicts.print(machine, &format!("cargo bench -p distlock-benches --bench foundation{quick}"));
}
