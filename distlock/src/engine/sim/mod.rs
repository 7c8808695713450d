//! The engine in a simulated world: several processes, one server, connections that break, clocks that
//! disagree. Everything that happens is drawn from one seed, so a failing run can be run again.
//!
//! `FIRST=20000 SEEDS=100000 cargo test -p distlock --lib sim` makes other runs and more of them: a seed with every
//! profile, then the next seed. A failure prints the command that shows its run step by step: `SEED`, `PROFILE`, and
//! `USES`, `SEVERAL`, `TICKETS` or `CASE` (the use of the keys, whether requests are for several keys, whether locks
//! are handed over as well, the rule that [`mutants`] tests). `BROKEN=1` with `CASE` breaks the rule.

#[macro_use]
mod trace;

mod answers;
mod client;
mod config;
mod driven;
mod faults;
mod foreign;
mod hand_over;
mod limits;
mod linger;
mod mutants;
mod oracle;
mod progress;
mod pushes;
mod refusals;
mod requests;
mod residue;
mod search;
mod several;
mod tests;
mod tickets;
mod timers;
mod wire;
mod workload;
mod world;

use crate::simulation::Account;
use config::{Config, PROFILES, Profile};
use fastrand::Rng;
use search::Search;
use world::{Stats, World};

/// A run that broke a rule.
#[derive(Debug)]
struct Violation {
    seed: u64,
    search: Search,
    config: Config,
    what: String,
    trace: Vec<String>,
}

impl Violation {
    /// The name of the check that found it.
    fn check(&self) -> &str {
        self.what.split(':').next().unwrap_or_default()
    }

    fn report(&self) -> String {
        let Violation { config, trace, .. } = self;
        format!("{config:#?}\n{}\n{}", trace.join("\n"), self.line())
    }

    /// The violation, and the command that shows it again.
    fn line(&self) -> String {
        let Violation { seed, search, config, what, .. } = self;
        let profile = config.profile;
        format!(
            "seed {seed} ({profile:?}): {what}\n    SEED={seed} PROFILE={profile:?} {search} cargo test -p distlock --lib \
             engine::sim::tests::replay -- --nocapture"
        )
    }
}

/// The seed and the profile of run number `run`. The first runs have seed 0 and each profile once, the next ones seed
/// 1, and so forth.
fn numbered(run: u64) -> (u64, Profile) {
    let count = u64::try_from(PROFILES.len()).unwrap_or(1);
    (run / count, PROFILES[usize::try_from(run % count).unwrap_or(0)])
}

/// Runs one seed. A violation is found without a trace; the run is repeated to get one.
fn run(seed: u64, profile: Profile, search: Search) -> Result<Stats, Box<Violation>> {
    let once = |account| run_once(seed, profile, search, account);
    let world = once(Account::Omitted);
    if world.failure.is_none() {
        return Ok(world.stats);
    }
    let world = once(Account::Written);
    Err(Box::new(Violation {
        seed,
        search,
        config: world.cfg,
        what: world.kernel.failure.unwrap_or_default(),
        trace: world.kernel.trace.unwrap_or_default(),
    }))
}

fn run_once(seed: u64, profile: Profile, search: Search, account: Account) -> World {
    let mut rng = Rng::with_seed(seed);
    let mut config = Config::draw(profile, &mut rng);
    search.apply(&mut config);
    let mut world = World::new(config, rng, account);
    world.run();
    world
}
