//! The runs that the test command makes.

use super::{Violation, profile_of, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A share of the seeds; the shares run side by side. Shows the first violation step by step.
fn share(of: u64, first: u64) {
    let seeds = number("SEEDS").unwrap_or(40_000);
    let mut found: Option<Box<Violation>> = None;
    let mut others = Vec::new();
    let mut seed = first;
    while seed < seeds && others.len() < 40 {
        if let Err(violation) = run(seed, profile_of(seed), |_| {}) {
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
fn no_seed_breaks_a_rule_even_half() {
    share(2, 0);
}

#[test]
fn no_seed_breaks_a_rule_odd_half() {
    share(2, 1);
}

/// Shows the run of `SEED`; without it, that a run is the same each time.
#[test]
fn replay() {
    let Some(seed) = number("SEED") else {
        let first = run(4, profile_of(4), |_| {}).unwrap();
        let second = run(4, profile_of(4), |_| {}).unwrap();
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        return;
    };
    match run(seed, profile_of(seed), |_| {}) {
        Ok(stats) => println!("seed {seed}: {stats:?}"),
        Err(violation) => panic!("{}", violation.report()),
    }
}
