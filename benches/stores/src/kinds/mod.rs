//! Eight processes on one key: first as readers and writers, then as holders of a limited lock. Hold 0.5 ms, think 1
//! ms. `judge` defines a hand-off.

mod contenders;
mod judge;
mod worker;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use distlock_fixtures::{compile_with_curator, curator_arguments};
use tempfile::TempDir;

pub(crate) use contenders::{Contender, Kind, Kinds, MOST};
pub(crate) use worker::{WORKER, work};

use crate::Result;
use crate::clock::{micros, monotonic, sleep_until};
use crate::locks::Place;
use crate::processes::{self, HOLD, PROCESSES, SPAN, THINK, nanos};
use crate::report::{Part, Row};
use judge::{Entry, Section, judge};

const CURATOR_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kinds/CuratorWorker.java");
const WRITERS: usize = 2;

pub(crate) async fn kinds(place: &Place<'_>) -> Result<Vec<Part>> {
    let curator = if place.kinds.contains(&Contender::Curator) { compiled_curator()? } else { None };
    let readers = PROCESSES - WRITERS;
    let writer_first = |number| if number < WRITERS { Kind::Exclusive } else { Kind::Shared };
    let tables: [(_, &dyn Fn(usize) -> Kind); 2] = [
        (format!("{readers} processes read and {WRITERS} write one key"), &writer_first),
        (format!("{PROCESSES} processes on one key, at most {MOST} hold it"), &|_| Kind::Limited),
    ];
    let mut parts = Vec::new();
    for (title, kind_of) in tables {
        let mut rows = Vec::new();
        for contender in place.kinds {
            if *contender != Contender::Curator || curator.is_some() {
                rows.push(measure(place, *contender, curator.as_ref(), kind_of).await?);
            }
        }
        parts.push(Part { place: place.name, title: format!("{title}, hold 0.5 ms, think 1 ms"), rows });
    }
    Ok(parts)
}

/// The folder of Curator's compiled worker. `None`: a package is missing.
fn compiled_curator() -> Result<Option<TempDir>> {
    let classes = tempfile::tempdir()?;
    match compile_with_curator(Path::new(CURATOR_SOURCE), classes.path()) {
        Ok(()) => Ok(Some(classes)),
        Err(reason) => {
            eprintln!("no rows of Curator: {reason}");
            Ok(None)
        }
    }
}

/// The workers begin before the measurement, so that a virtual machine has compiled their code by then.
async fn measure(
    place: &Place<'_>,
    contender: Contender,
    curator: Option<&TempDir>,
    kind_of: &dyn Fn(usize) -> Kind,
) -> Result<Row> {
    let from = monotonic() + nanos(Duration::from_secs(if contender == Contender::Curator { 25 } else { 3 }));
    let until = from + nanos(SPAN);
    let mut workers = Vec::new();
    for number in 0..PROCESSES {
        let kind = kind_of(number);
        let mut command = match curator {
            Some(classes) if contender == Contender::Curator => {
                let mut java = Command::new("java");
                java.args(curator_arguments(classes.path(), "CuratorWorker"));
                java.args([kind.word(), &place.raw, kind.key()]);
                java.args([u64::from(MOST), nanos(HOLD), nanos(THINK)].map(|number| number.to_string()));
                java
            }
            _ => {
                let url = if contender == Contender::Distlock { &place.ours } else { &place.raw };
                let mut worker = Command::new(std::env::current_exe()?);
                worker.args([WORKER, contender.name(), kind.word(), url, &format!("worker{number}")]);
                worker
            }
        };
        workers.push((kind, command.arg(until.to_string()).stdout(Stdio::piped()).spawn()?));
    }
    sleep_until(from);
    let before = place.server.requests().await?;
    sleep_until(until);
    let requests = place.server.requests().await? - before;
    let mut history = Vec::new();
    for (kind, worker) in workers {
        let sections = processes::sections(worker)?;
        if sections.first().is_none_or(|(_, asked, _)| *asked > from) {
            return Err(format!("a worker of {} was not ready in time", contender.name()).into());
        }
        history.extend(sections.into_iter().map(|(start, asked, end)| Section { kind, asked, start, end }));
    }
    Ok(row(contender, &judge(history), from..until, requests))
}

/// Overlaps are counted in the whole history, and all other figures in the span.
fn row(contender: Contender, history: &[Entry], span: std::ops::Range<u64>, requests: u64) -> Row {
    let entries: Vec<&Entry> = history.iter().filter(|entry| span.contains(&entry.start)).collect();
    let mut hand_offs: Vec<u64> = entries.iter().filter_map(|entry| entry.hand_off).collect();
    // If writers starve, there may be none.
    let mut micros =
        |share| if hand_offs.is_empty() { f64::NAN } else { micros(&mut hand_offs, share) as f64 };
    // The names differ from those of `processes`, whose chart has only exclusive locks.
    let mut figures = vec![("sections per s", entries.len() as f64 / SPAN.as_secs_f64())];
    if history.iter().any(|entry| entry.kind == Kind::Exclusive) {
        let writers = entries.iter().filter(|entry| entry.kind == Kind::Exclusive).count();
        figures.push(("of writers per s", writers as f64 / SPAN.as_secs_f64()));
    }
    figures.extend([
        ("p50 µs of a hand-off", micros(0.5)),
        ("p99 µs of a hand-off", micros(0.99)),
        ("longest µs", micros(1.0)),
        ("requests per section", requests as f64 / entries.len() as f64),
        ("overlaps", history.iter().filter(|entry| entry.overlaps).count() as f64),
    ]);
    Row { who: contender.name(), figures }
}
