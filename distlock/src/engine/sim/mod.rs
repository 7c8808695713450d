//! The engine in a simulated world: several processes, one server, connections that break, clocks that
//! disagree. Everything that happens is drawn from one seed, so a failing run can be run again.
//!
//! `SEEDS=100000 cargo test -p distlock --lib sim` looks at more seeds, `SEED=17 cargo test -p distlock --lib
//! sim::tests::replay -- --nocapture` shows one of them step by step.

#[macro_use]
mod trace;

mod client;
pub(crate) mod clocks;
mod config;
mod faults;
mod foreign;
mod hand_over;
mod limits;
mod mutants;
mod oracle;
mod progress;
mod pushes;
mod refusals;
mod residue;
mod several;
mod tests;
mod wire;
mod workload;
mod world;

use config::{Config, PROFILES, Profile, Uses};
use fastrand::Rng;
use world::{Stats, World};

/// A run that broke a rule.
#[derive(Debug)]
struct Violation {
    seed: u64,
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

    fn line(&self) -> String {
        format!("seed {} ({:?}): {}", self.seed, self.config.profile, self.what)
    }
}

/// The profile that a seed belongs to.
fn profile_of(seed: u64) -> Profile {
    let count = u64::try_from(PROFILES.len()).unwrap_or(1);
    PROFILES[usize::try_from(seed % count).unwrap_or(0)]
}

/// Runs one seed. A violation is found without a trace; the run is repeated to get one.
fn run(seed: u64, profile: Profile, uses: Uses, bias: impl Fn(&mut Config)) -> Result<Stats, Box<Violation>> {
    let once = |traced: bool| {
        let mut rng = Rng::with_seed(seed);
        let mut config = Config::draw(profile, &mut rng);
        config.uses = uses;
        bias(&mut config);
        let mut world = World::new(config, rng, traced);
        world.run();
        world
    };
    let world = once(false);
    if world.failure.is_none() {
        return Ok(world.stats);
    }
    let world = once(true);
    Err(Box::new(Violation {
        seed,
        config: world.cfg,
        what: world.failure.unwrap_or_default(),
        trace: world.trace.unwrap_or_default(),
    }))
}
