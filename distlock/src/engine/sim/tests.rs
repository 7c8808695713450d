//! The runs that the test command makes.

use super::config::{Config, PROFILES, Use, Uses};
use super::digest::Digest;
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

/// Prints a number for what happens in so many seeds of each profile, for each kind of run, if `DIGEST` says how many:
/// a change that is none of behaviour leaves them as they are.
#[test]
fn a_run_is_the_same_each_time() {
    let seeds = number("DIGEST");
    for profile in 0..PROFILES.len() as u64 {
        let of = |uses, bias: fn(&mut Config)| {
            let mut digest = Digest::default();
            for index in 0..seeds.unwrap_or(1) {
                let seed = index * PROFILES.len() as u64 + profile;
                let stats = run(seed, profile_of(seed), uses, bias).map_err(|violation| violation.line());
                digest.merge(stats.unwrap().digest);
            }
            digest
        };
        let all = || {
            let plain = [of(EXCLUSIVE, as_drawn), of(Uses::Drawn, as_drawn)];
            (plain, [of(EXCLUSIVE, several), of(Uses::All(Use::Readers(0.6)), several)])
        };
        let first = all();
        match seeds {
            Some(_) => println!("digest {profile:>2}: {first:x?}"),
            None => assert_eq!(first, all()),
        }
    }
}

/// Shows the run of `SEED`, of exclusive locks if `USES=exclusive`, of several keys if `SEVERAL` is set.
#[test]
fn replay() {
    let Some(seed) = number("SEED") else {
        return;
    };
    let uses = if std::env::var("USES").as_deref() == Ok("exclusive") { EXCLUSIVE } else { Uses::Drawn };
    let bias = if std::env::var_os("SEVERAL").is_some() { several } else { as_drawn };
    match run(seed, profile_of(seed), uses, bias) {
        Ok(stats) => println!("seed {seed}: {stats:?}"),
        Err(violation) => panic!("{}", violation.report()),
    }
}
