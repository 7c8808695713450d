//! What locks on etcd and PostgreSQL cost, side by side with what one would write with the raw client, in one run.
//!
//! ```text
//! cargo run --release -p distlock-benches-stores [-- WORD ..]
//! ```
//!
//! WORD: etcd, postgres; alone, tasks, hot, processes, held; --json. Without any of a group all of it runs: about five
//! minutes together. It starts its servers on free loopback ports, and ends them. The figures of one run are compared
//! with each other, never with those of another run. `--json` prints one JSON array instead of the tables.

#![allow(clippy::print_stdout, reason = "printing is what a bench is for")]

mod alone;
mod clock;
mod cpu;
mod etcd;
mod held;
mod hot;
mod locks;
mod postgres;
mod processes;
mod report;

use etcd::EtcdServer;
use locks::{Contender, Place, Server};
use postgres::PostgresOnDisk;
use report::Part;

/// Whatever goes wrong ends the bench.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const STORES: [&str; 2] = ["etcd", "postgres"];
const PARTS: [&str; 5] = ["alone", "tasks", "hot", "processes", "held"];

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_worker = words.first().is_some_and(|first| first == processes::WORKER);
    let threads = if is_worker { 1 } else { 2 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    if is_worker {
        return runtime.block_on(processes::work(&words.split_off(1)));
    }
    let known = |word: &String| STORES.contains(&&**word) || PARTS.contains(&&**word) || word == "--json";
    if let Some(unknown) = words.iter().find(|word| !known(word)) {
        return Err(format!("`{unknown}` is none of {STORES:?}, {PARTS:?} and --json").into());
    }
    runtime.block_on(run(&words))
}

async fn run(words: &[String]) -> Result<()> {
    // None of them: all of them.
    let wants = |all: &[&str], one: &str| {
        let named = words.iter().any(|word| all.contains(&&**word));
        !named || words.iter().any(|word| word == one)
    };
    let is_json = words.iter().any(|word| word == "--json");
    let mut all = Vec::new();
    if wants(&STORES, "etcd") {
        let server = Server::Etcd(EtcdServer::start()?);
        measure(&etcd(&server)?, &|part| wants(&PARTS, part), is_json, &mut all).await?;
    }
    if wants(&STORES, "postgres") {
        let server = Server::Postgres(PostgresOnDisk::start().await?);
        for place in [postgres(&server, "on")?, postgres(&server, "off")?] {
            measure(&place, &|part| wants(&PARTS, part), is_json, &mut all).await?;
        }
    }
    if is_json {
        println!("{}", serde_json::Value::from(all.iter().map(Part::json).collect::<Vec<_>>()));
    }
    Ok(())
}

fn etcd(server: &Server) -> Result<Place<'_>> {
    let Server::Etcd(running) = server else { return Err("another server".into()) };
    Ok(Place {
        name: "etcd",
        server,
        ours: format!("etcd://{}", running.address()),
        raw: running.address(),
        least: Contender::EtcdTxn,
        queues: &[Contender::Distlock, Contender::EtcdQueue, Contender::EtcdLockCall],
    })
}

fn postgres<'a>(server: &'a Server, durable: &str) -> Result<Place<'a>> {
    let Server::Postgres(running) = server else { return Err("another server".into()) };
    let url = running.url();
    Ok(Place {
        name: if durable == "on" { "PostgreSQL, durable" } else { "PostgreSQL, synchronous_commit=off" },
        server,
        ours: format!("{url}?synchronous_commit={durable}&schema=locks_{durable}"),
        raw: format!("{url}?options=-csynchronous_commit%3D{durable}"),
        least: Contender::PostgresRow,
        queues: &[Contender::Distlock, Contender::PostgresPrototype],
    })
}

async fn measure(
    place: &Place<'_>,
    wants: &(dyn Fn(&str) -> bool + Sync),
    is_json: bool,
    all: &mut Vec<Part>,
) -> Result<()> {
    for name in PARTS.into_iter().filter(|name| wants(name)) {
        let part = match name {
            "alone" => alone::alone(place).await?,
            "tasks" => alone::tasks(place).await?,
            "hot" => hot::hot(place).await?,
            "processes" => processes::processes(place).await?,
            _ => held::held(place).await?,
        };
        if !is_json {
            part.print();
        }
        all.push(part);
    }
    Ok(())
}
