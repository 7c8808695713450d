//! The coordinator in a simulated world: several processes, several servers with their own clocks, links that break,
//! servers that hang, stop, and restart without data. One seed decides everything.
//!
//! The processes are simpler than the engine (one attempt for each process and key), but follow the same rules: a lease
//! is counted from before the command was sent, and a late reply for a cancelled token is compensated.
//!
//! `SEEDS=100000 cargo test -p distlock --lib quorum::sim` runs more seeds,
//! `SEED=17 cargo test -p distlock --lib quorum::sim::tests::replay -- --nocapture` shows one of them step by step.

mod attempts;
mod config;
mod judge;
mod network;
mod outcome;
mod process;
mod tests;
mod world;

use crate::simulation::Account;
use config::Config;
use fastrand::Rng;
use world::World;

/// A run that broke a rule.
struct Violation {
    seed: u64,
    what: String,
    trace: Vec<String>,
}

impl Violation {
    fn line(&self) -> String {
        format!("seed {}: {}", self.seed, self.what)
    }
}

/// The numbers of events in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stats {
    acquired: u64,
    lost: u64,
    busy: u64,
    commands: u64,
    overtaken: u32,
    /// The pairs of holders at the same time, in runs that only measure them, and for how long.
    overlaps: u64,
    longest_overlap: u64,
}

/// Runs one seed. If it broke a rule, runs it again with a trace.
fn run(seed: u64, bias: impl Fn(&mut Config)) -> Result<Stats, Violation> {
    let once = |account| run_once(seed, &bias, account);
    let world = once(Account::Omitted);
    match world.kernel.failure {
        None => Ok(world.stats),
        Some(what) => {
            Err(Violation { seed, what, trace: once(Account::Written).kernel.trace.unwrap_or_default() })
        }
    }
}

fn run_once(seed: u64, bias: &impl Fn(&mut Config), account: Account) -> World {
    let mut rng = Rng::with_seed(seed);
    let mut config = Config::draw(&mut rng);
    bias(&mut config);
    let mut world = World::new(config, rng, account);
    world.run();
    world
}
