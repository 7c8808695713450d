//! One task, and many tasks on separate keys, compared with the simplest possible code.

use std::time::{Duration, Instant};

use crate::Result;
use crate::clock::{micros, monotonic};
use crate::locks::{Contender, Locks, Place, with_contender};
use crate::report::{Part, Row};

const BLOCKS: u32 = 6;
const ROUNDS: u32 = 300;
/// The number of first locks to leave out, because those of a new connection take longer.
const FIRST_ONES: u32 = 30;
const AGE: u32 = 20_000;
const AGED_SECTIONS: u32 = 1_000;
const TASKS: usize = 64;
const TURNS: u32 = 3;
const SPAN: Duration = Duration::from_secs(3);

/// Acquires and releases, one after the other. The contenders take turns in blocks.
pub(crate) async fn alone(place: &Place<'_>) -> Result<Part> {
    let contenders = [place.least, Contender::Distlock];
    let mut samples = [Vec::new(), Vec::new()];
    for block in 0..BLOCKS {
        for (contender, samples) in contenders.into_iter().zip(&mut samples) {
            let url = place.url(contender);
            let took = with_contender!(contender, url, "alone", locks => once(&locks).await?);
            // The first block warms the server up.
            if block > 0 {
                samples.extend(took);
            }
        }
    }
    let rows = contenders.into_iter().zip(samples).map(|(contender, mut samples)| Row {
        who: contender.name(),
        figures: vec![
            ("p50 µs", micros(&mut samples, 0.5) as f64),
            ("p99 µs", micros(&mut samples, 0.99) as f64),
        ],
    });
    Ok(Part { place: place.name, title: "one task, acquire and release".into(), rows: rows.collect() })
}

/// Sections of one key, one after the other. Does a lock take longer after many sections of its key?
pub(crate) async fn aged(place: &Place<'_>) -> Result<Part> {
    let mut rows = Vec::new();
    for contender in [place.least, Contender::Distlock] {
        let url = place.url(contender);
        let (mut first, mut last) = with_contender!(contender, url, "aged", locks => {
            let first = sections(&locks, "bench/aged", AGED_SECTIONS).await?;
            sections(&locks, "bench/aged", AGE - 2 * AGED_SECTIONS).await?;
            (first, sections(&locks, "bench/aged", AGED_SECTIONS).await?)
        });
        let figures = vec![
            ("p50 of the first ones, µs", micros(&mut first, 0.5) as f64),
            ("of the last ones, µs", micros(&mut last, 0.5) as f64),
        ];
        rows.push(Row { who: contender.name(), figures });
    }
    let title = format!("the first and the last {AGED_SECTIONS} of {AGE} sections of one key");
    Ok(Part { place: place.name, title, rows })
}

/// Runs until the server has reached its full speed.
pub(crate) async fn warm_up(place: &Place<'_>) -> Result<()> {
    for contender in [place.least, Contender::Distlock] {
        let url = place.url(contender);
        for _ in 0..place.warm_up.div_ceil(ROUNDS + FIRST_ONES) {
            let took = with_contender!(contender, url, "warm-up", locks => once(&locks).await?);
            drop(took);
        }
    }
    Ok(())
}

async fn once<L: Locks>(locks: &L) -> Result<Vec<u64>> {
    sections(locks, "bench/alone", FIRST_ONES).await?;
    sections(locks, "bench/alone", ROUNDS).await
}

/// How long each of these sections took.
async fn sections<L: Locks>(locks: &L, key: &str, count: u32) -> Result<Vec<u64>> {
    let mut samples = Vec::new();
    for _ in 0..count {
        let start = monotonic();
        L::release(locks.acquire(key).await?).await?;
        samples.push(monotonic() - start);
    }
    Ok(samples)
}

/// 64 tasks, each with its own key.
pub(crate) async fn tasks(place: &Place<'_>) -> Result<Part> {
    let contenders = [place.least, Contender::Distlock];
    let mut counts = [0, 0];
    for _ in 0..TURNS {
        for (contender, count) in contenders.into_iter().zip(&mut counts) {
            let url = place.url(contender);
            *count += with_contender!(contender, url, "tasks", locks => distinct(&locks, TASKS, SPAN).await?);
        }
    }
    let rate = |count: u64| count as f64 / f64::from(TURNS) / SPAN.as_secs_f64();
    let rows = contenders.into_iter().zip(counts);
    let rows = rows.map(|(it, count)| Row { who: it.name(), figures: vec![("locks per s", rate(count))] });
    let title = format!("{TASKS} tasks on keys of their own");
    Ok(Part { place: place.name, title, rows: rows.collect() })
}

/// How many locks this many tasks acquire in that time, each with its own key.
pub(crate) async fn distinct<L: Locks>(locks: &L, tasks: usize, span: Duration) -> Result<u64> {
    let end = Instant::now() + span;
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let locks = locks.clone();
        running.spawn(async move {
            let (key, mut count) = (format!("bench/{task}"), 0);
            while Instant::now() < end {
                L::release(locks.acquire(&key).await?).await?;
                count += 1;
            }
            Result::Ok(count)
        });
    }
    let mut sum = 0;
    while let Some(count) = running.join_next().await {
        sum += count??;
    }
    Ok(sum)
}
