//! What locks on ZooKeeper cost, side by side with the raw client and the client's own recipe, in one run.
//!
//! `cargo run --release -p distlock-benches-zookeeper [-- [alone] [tasks] [hot] [processes]]`
//!
//! Without names all parts run: about two minutes. It starts one ZooKeeper server on a free loopback port, and ends it.
//! The figures of one run are compared with each other, never with those of another run.

#![allow(clippy::print_stdout, reason = "printing is what a bench is for")]

mod clock;
mod contenders;
mod here;
mod processes;

use distlock_fixtures::ZooKeeperServers;

/// Whatever goes wrong ends the bench.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let mut parts: Vec<String> = std::env::args().skip(1).collect();
    if parts.first().is_some_and(|first| first == processes::WORKER) {
        return processes::work(&parts.split_off(1));
    }
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let server = ZooKeeperServers::for_measurements();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(here::warm_up(&server))?;
    if wants("alone") {
        runtime.block_on(here::alone(&server))?;
    }
    if wants("tasks") {
        runtime.block_on(here::tasks(&server))?;
    }
    if wants("hot") {
        runtime.block_on(here::hot(&server))?;
    }
    if wants("processes") {
        processes::measure(&server)?;
    }
    Ok(())
}

/// How many requests the server has received, apart from the one that this takes.
fn requests(server: &ZooKeeperServers) -> u64 {
    server.figure(0, "zk_packets_received")
}
