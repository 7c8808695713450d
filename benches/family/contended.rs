//! Many tasks on one key: total time, commands, hand-offs.

use std::time::{Duration, Instant};

use distlock_benches::Result;
use distlock_benches::clock::monotonic;
use distlock_benches::counting::Counting;
use distlock_benches::sections::Section;
use distlock_benches::server::Server;
use distlock_benches::stats::{median, quantile};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::members::{Ask, Local, Member};
use crate::record::{Record, Taken};

/// The intended duration of each hold.
const HOLD: Duration = Duration::from_millis(2);

/// The tasks that request the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    /// The kinds of requests, each with its number of tasks.
    pub(crate) asks: &'static [(Ask, usize)],
    /// How often each of them acquires the lock.
    pub(crate) sections: usize,
}

/// The results of one contender.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// The total time ÷ the time of tokio's own locks just before. The median over the runs.
    pub(crate) total: f64,
    /// The longest time from the request to the lock, divided in the same way.
    pub(crate) longest_wait: f64,
    pub(crate) commands: f64,
    /// Nanoseconds, median over all runs.
    pub(crate) hand_off: u64,
    pub(crate) intrusions: usize,
}

struct Run {
    total: Duration,
    record: Record,
}

/// Holds for two milliseconds. (The thread sleeps, because tokio's timers would take up to a millisecond longer.)
async fn hold() -> Result<()> {
    Ok(spawn_blocking(|| std::thread::sleep(HOLD)).await?)
}

async fn task<M: Member>(locks: M, ask: Ask, key: String, sections: usize) -> Result<Vec<Taken>> {
    let mut taken = Vec::with_capacity(sections);
    for _ in 0..sections {
        let asked = monotonic();
        let guard = locks.acquire(ask, &key).await?;
        let start = monotonic();
        hold().await?;
        let end = monotonic();
        taken.push(Taken { ask, section: Section { asked, start, end } });
        M::release(guard).await?;
    }
    Ok(taken)
}

/// All tasks acquire the key as often as planned. `None`: it takes longer than `limit`.
async fn one_run<M: Member>(managers: &[M], crowd: Crowd, limit: Duration) -> Result<Option<Run>> {
    let key = format!("bench:{}", monotonic());
    let mut tasks = JoinSet::new();
    let asks = crowd.asks.iter().flat_map(|(ask, count)| std::iter::repeat_n(*ask, *count));
    let start = Instant::now();
    for (ask, locks) in asks.zip(managers.iter().cycle()) {
        tasks.spawn(task(locks.clone(), ask, key.clone(), crowd.sections));
    }
    let all = async {
        let mut taken = Vec::new();
        while let Some(done) = tasks.join_next().await {
            taken.extend(done??);
        }
        Result::Ok(Run { total: start.elapsed(), record: Record::new(taken) })
    };
    let run = timeout(limit, all).await;
    tasks.shutdown().await;
    run.ok().transpose()
}

/// Runs it `times` times for the time, and once more to count the commands. `None`: a run takes longer than `limit`.
pub(crate) async fn measure<M: Member>(
    server: &Server,
    managers: usize,
    crowd: Crowd,
    times: usize,
    limit: Duration,
) -> Result<Option<Figures>> {
    let mut connected = Vec::new();
    for number in 0..managers {
        let locks = M::connect(&server.url()).await?;
        // Makes connections and loads scripts before the measurement.
        for (ask, _) in crowd.asks {
            M::release(locks.acquire(*ask, &format!("bench:warm:{number}:{ask:?}")).await?).await?;
        }
        connected.push(locks);
    }
    let ideal = [Local::connect(&server.url()).await?];
    let (mut totals, mut waits, mut hand_offs, mut intrusions) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..times {
        let Some(best) = one_run(&ideal, crowd, limit).await? else { return Ok(None) };
        let Some(run) = one_run(&connected, crowd, limit).await? else { return Ok(None) };
        totals.push(run.total.as_secs_f64() / best.total.as_secs_f64());
        waits.push(run.record.longest_wait() as f64 / best.record.longest_wait() as f64);
        hand_offs.extend(run.record.hand_offs());
        intrusions += run.record.intrusions();
    }
    let counting = Counting::begin([server])?;
    let Some(counted) = one_run(&connected, crowd, limit).await? else { return Ok(None) };
    let commands = counting.end()? as f64 / counted.record.len() as f64;
    Ok(Some(Figures {
        total: median(&mut totals),
        longest_wait: median(&mut waits),
        commands,
        hand_off: quantile(&mut hand_offs, 0.5),
        intrusions,
    }))
}
