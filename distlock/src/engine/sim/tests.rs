//! The runs that the test command makes.

use super::config::{Config, Use, Uses};
use super::{Violation, profile_of, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

const EXCLUSIVE: Uses = Uses::All(Use::Exclusive);

fn as_drawn(_: &mut Config) {}

/// Most of the requests are for several of three keys.
fn several(c: &mut Config) {
    c.keys = 3;
    c.several = 0.7;
    c.requests = c.requests.min(100);
}

/// Tests run side by side. Shows the first violation step by step.
fn runs(uses: Uses, bias: fn(&mut Config)) {
    let seeds = number("SEEDS").unwrap_or(20_000);
    let mut found: Option<Box<Violation>> = None;
    let mut others = Vec::new();
    let mut seed = 0;
    while seed < seeds && others.len() < 40 {
        if let Err(violation) = run(seed, profile_of(seed), uses, bias) {
            others.push(violation.line());
            found.get_or_insert(violation);
        }
        seed += 1;
    }
    if let Some(first) = found {
        panic!("{}\n{}", first.report(), others.join("\n"));
    }
}

#[test]
fn no_seed_breaks_a_rule_of_exclusive_locks() {
    runs(EXCLUSIVE, as_drawn);
}

#[test]
fn no_seed_breaks_a_rule_of_shared_and_limited_locks() {
    runs(Uses::Drawn, as_drawn);
}

#[test]
fn no_seed_breaks_a_rule_of_several_keys_at_once() {
    runs(EXCLUSIVE, several);
}

#[test]
fn no_seed_breaks_a_rule_of_several_shared_keys_at_once() {
    runs(Uses::All(Use::Readers(0.6)), several);
}

/// Shows the run of `SEED`, of exclusive locks if `USES=exclusive`, of several keys if `SEVERAL` is set; without it,
/// that a run is the same each time.
#[test]
fn replay() {
    let Some(seed) = number("SEED") else {
        let first = run(4, profile_of(4), Uses::Drawn, |_| {}).unwrap();
        let second = run(4, profile_of(4), Uses::Drawn, |_| {}).unwrap();
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        return;
    };
    let uses = if std::env::var("USES").as_deref() == Ok("exclusive") { EXCLUSIVE } else { Uses::Drawn };
    let bias = if std::env::var_os("SEVERAL").is_some() { several } else { as_drawn };
    match run(seed, profile_of(seed), uses, bias) {
        Ok(stats) => println!("seed {seed}: {stats:?}"),
        Err(violation) => panic!("{}", violation.report()),
    }
}
