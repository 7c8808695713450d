//! The cost of a lock on several servers, compared with one server in one run.
//!
//! `cargo bench -p distlock-benches --bench topologies [-- [--quick] [cluster] [quorum] [crowd]]`
//!
//! Without names all parts run: about six minutes, or one and a half with `--quick`.

mod cluster;
mod crowd;
mod quorum;
mod raw_quorum;
mod redlock;
mod stopped;

use distlock_benches::Result;
use distlock_benches::cluster::Cluster;
use distlock_benches::options::{Length, Parts};
use distlock_benches::server::Server;
use distlock_benches::table::Verdicts;
use distlock_benches::worker;

fn main() -> Result<()> {
    // The bench starts itself as a worker process.
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(worker::COMMAND) {
        return worker::run(args);
    }
    let (length, parts) = (Length::from_args(), Parts::from_args());
    let alone = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut verdicts = Verdicts::default();
    if parts.wants("cluster") {
        let cluster = Cluster::start()?;
        runtime.block_on(cluster::uncontended(&cluster, &alone, length, &mut verdicts))?;
        cluster::hand_off(&cluster, &alone, length, &mut verdicts)?;
    }
    if parts.wants("quorum") {
        let five = quorum::Five::start();
        runtime.block_on(quorum::uncontended(&five, &alone, length, &mut verdicts))?;
        runtime.block_on(stopped::measure(&five, length, &mut verdicts))?;
    }
    if parts.wants("crowd") {
        crowd::measure(&quorum::Five::start(), &alone, length, &mut verdicts)?;
    }
    let quick = length.pick("", " -- --quick");
    verdicts.print(&alone.machine()?, &format!("cargo bench -p distlock-benches --bench topologies{quick}"));
    Ok(())
}
