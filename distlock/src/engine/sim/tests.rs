//! The runs that the test command makes.

use super::config::{Use, Uses};
use super::{Violation, profile_of, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

const EXCLUSIVE: Uses = Uses::All(Use::Exclusive);

/// The seeds from `first` on. Tests run side by side. Shows the first violation step by step.
fn runs(uses: Uses, of: u64, first: u64) {
    let seeds = number("SEEDS").unwrap_or(20_000);
    let mut found: Option<Box<Violation>> = None;
    let mut others = Vec::new();
    let mut seed = first;
    while seed < seeds && others.len() < 40 {
        if let Err(violation) = run(seed, profile_of(seed), uses, |_| {}) {
            others.push(violation.line());
            found.get_or_insert(violation);
        }
        seed += of;
    }
    if let Some(first) = found {
        panic!("{}\n{}", first.report(), others.join("\n"));
    }
}

#[test]
fn no_seed_breaks_a_rule_of_exclusive_locks() {
    runs(EXCLUSIVE, 1, 0);
}

#[test]
fn no_seed_breaks_a_rule_of_shared_and_limited_locks() {
    runs(Uses::Drawn, 1, 0);
}

/// Shows the run of `SEED`, of exclusive locks if `USES=exclusive`; without it, that a run is the same each time.
#[test]
fn replay() {
    let Some(seed) = number("SEED") else {
        let first = run(4, profile_of(4), Uses::Drawn, |_| {}).unwrap();
        let second = run(4, profile_of(4), Uses::Drawn, |_| {}).unwrap();
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        return;
    };
    let uses = if std::env::var("USES").as_deref() == Ok("exclusive") { EXCLUSIVE } else { Uses::Drawn };
    match run(seed, profile_of(seed), uses, |_| {}) {
        Ok(stats) => println!("seed {seed}: {stats:?}"),
        Err(violation) => panic!("{}", violation.report()),
    }
}
