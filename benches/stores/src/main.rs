//! The cost of locks on the stores other than Redis, compared in one run with simple code on the raw client.
//!
//! ```text
//! cargo run --release -p distlock-benches-stores [-- WORD ..]
//! ```
//!
//! WORD is one of etcd, postgres, zookeeper, mariadb, memcached, or one of alone, aged, tasks, hot, processes, kinds,
//! held, far, or --json. Without a word of a group, the whole group runs: about 20 minutes for all. The bench starts
//! its servers on free loopback ports, and ends them. Compare only figures of the same run. They are also written to
//! `benches/stores.json` in cargo's target folder (or, for these words, to `stores-etcd-alone.json`). `--json` prints
//! the JSON instead of the tables. Curator's rows of `kinds` need a JDK and `libcurator-recipes-java`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what a bench is for")]

mod alone;
mod clock;
mod cpu;
mod etcd;
mod far;
mod held;
mod hot;
mod kinds;
mod locks;
mod mariadb;
mod memcached;
mod pauses;
mod places;
mod postgres;
mod processes;
mod report;
mod zookeeper;

use locks::Place;
use report::Part;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PARTS: [&str; 8] = ["alone", "aged", "tasks", "hot", "processes", "kinds", "held", "far"];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let worker =
        words.first().map(String::as_str).filter(|first| [processes::WORKER, kinds::WORKER].contains(first));
    let threads = if worker.is_some() { 1 } else { 2 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    match worker {
        Some(kinds::WORKER) => return runtime.block_on(kinds::work(&words[1..])),
        Some(_) => return runtime.block_on(processes::work(&words[1..])),
        None => {}
    }
    let known =
        |word: &String| places::STORES.contains(&&**word) || PARTS.contains(&&**word) || word == "--json";
    if let Some(unknown) = words.iter().find(|word| !known(word)) {
        return Err(format!("`{unknown}` is none of {:?}, {PARTS:?} and --json", places::STORES).into());
    }
    runtime.block_on(run(&words))
}

async fn run(words: &[String]) -> Result<()> {
    // Without any word of a group, all of them are selected.
    let wants = |all: &[&str], one: &str| {
        let named = words.iter().any(|word| all.contains(&&**word));
        !named || words.iter().any(|word| word == one)
    };
    let is_json = words.iter().any(|word| word == "--json");
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for store in places::STORES.into_iter().filter(|store| wants(&places::STORES, store)) {
        let server = places::start(store).await?;
        for place in places::of(&server)? {
            failed.extend(measure(&place, &|part| wants(&PARTS, part), is_json, &mut all).await?);
        }
    }
    let results = serde_json::Value::from(all.iter().map(Part::json).collect::<Vec<_>>());
    let subset: Vec<&str> = words.iter().map(|word| &**word).filter(|word| *word != "--json").collect();
    let path = report::write(&subset, &results)?;
    if is_json {
        println!("{results}");
    } else {
        println!("\nThe same as JSON: {}", path.display());
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("not measured: {}", failed.join("; ")).into()) }
}

/// Returns the parts that failed, with their errors. A busy disk may make one fail, and the others are measured
/// nevertheless.
async fn measure(
    place: &Place<'_>,
    wants: &(dyn Fn(&str) -> bool + Sync),
    is_json: bool,
    all: &mut Vec<Part>,
) -> Result<Vec<String>> {
    alone::warm_up(place).await?;
    let mut failed = Vec::new();
    for name in PARTS.into_iter().filter(|name| wants(name) && place.parts.contains(name)) {
        match figures(place, name).await {
            Ok(parts) => {
                if !is_json {
                    parts.iter().for_each(Part::print);
                }
                all.extend(parts);
            }
            Err(error) => failed.push(format!("{}, {name}: {error}", place.name)),
        }
    }
    Ok(failed)
}

async fn figures(place: &Place<'_>, name: &str) -> Result<Vec<Part>> {
    Ok(match name {
        "alone" => vec![alone::alone(place).await?],
        "aged" => vec![alone::aged(place).await?],
        "tasks" => vec![alone::tasks(place).await?],
        "hot" => vec![hot::hot(place).await?],
        "processes" => vec![processes::processes(place).await?],
        "kinds" => kinds::kinds(place).await?,
        "far" => vec![far::far(place).await?],
        _ => vec![held::held(place).await?],
    })
}
