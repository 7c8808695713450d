//! The runs that the test command makes, and proof that they look: every rule is broken on purpose, one at a
//! time, and must be found.

use super::config::{Config, MILLI, SECOND};
use super::{Stats, run};
use crate::engine::mutant::{Mutant, switch};

/// Where a fault shows best.
type Bias = fn(&mut Config);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_seed_breaks_a_rule() {
    let mut all = Stats::default();
    for seed in 0..number("SEEDS").unwrap_or(6_000) {
        match run(seed, |_| {}) {
            Ok(stats) => {
                all.acquired += stats.acquired;
                all.lost += stats.lost;
                all.busy += stats.busy;
            }
            Err(violation) => panic!("{}\n{}", violation.trace.join("\n"), violation.line()),
        }
    }
    assert!(all.acquired > 0 && all.lost > 0 && all.busy > 0, "{all:?}");
}

#[test]
fn replay() {
    match run(number("SEED").unwrap_or(3), |_| {}) {
        Ok(stats) => println!("{stats:?}"),
        Err(violation) => panic!("{}\n{}", violation.trace.join("\n"), violation.line()),
    }
}

fn crowded(c: &mut Config) {
    c.processes = c.processes.max(3);
    c.keys = 1;
    c.requests = c.requests.max(16);
    c.once = 0.0;
}

fn tried(c: &mut Config) {
    crowded(c);
    c.once = 1.0;
    c.ttl = 60_000;
    c.longest_hold = 2;
}

fn fenced(c: &mut Config) {
    crowded(c);
    c.fenced = 1.0;
}

fn restarted(c: &mut Config) {
    crowded(c);
    c.wiped = true;
    c.stops = 6;
    c.ttl = 20_000;
    c.longest_hold = 8_000;
    c.horizon = 8 * SECOND;
}

fn cut_off(c: &mut Config) {
    crowded(c);
    c.breaks = 12;
    c.ttl = 60_000;
    c.longest_hold = 20;
    c.crashes = 0;
    c.delay = (100, 3_000);
    c.horizon = 2_000 * MILLI;
}

fn set_forward(c: &mut Config) {
    crowded(c);
    c.servers = 3;
    c.steps = 8;
    c.crashes = 0;
    c.hangs = 3;
    c.ttl = 3_000;
    c.longest_hold = 2_000;
    c.horizon = 8 * SECOND;
}

fn cut_off_again_and_again(c: &mut Config) {
    crowded(c);
    c.processes = 5;
    c.servers = 3;
    c.breaks = 40;
    c.hangs = 1;
    c.crashes = 0;
    c.requests = 30;
    c.cancel = 0.0;
    c.ttl = 3_000;
    c.longest_hold = 400;
    c.delay = (1_000, 30_000);
    c.horizon = 4 * SECOND;
}

fn forgotten_by_most(c: &mut Config) {
    restarted(c);
    c.ttl = 3_000;
    c.renews = 1.0;
    c.crashes = 0;
    c.steps = 0;
    c.stops = 10;
}

#[test]
fn every_broken_rule_is_found() {
    let cases: [(Mutant, Bias); 9] = [
        (Mutant::HalfIsEnough, crowded),
        (Mutant::ErrorsAreConsent, crowded),
        (Mutant::MinorityKept, tried),
        (Mutant::NothingOwed, cut_off),
        (Mutant::YoungServersCount, restarted),
        (Mutant::ProposalAlwaysTaken, fenced),
        (Mutant::ServerStepIgnored, set_forward),
        (Mutant::PaidTooLate, cut_off_again_and_again),
        (Mutant::LostKeptElsewhere, forgotten_by_most),
    ];
    for (fault, bias) in cases {
        switch(Some(fault));
        let found = (0..3_000).find_map(|seed| run(seed, bias).err());
        switch(None);
        let found = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        println!("{fault:?}: {}", found.line());
    }
}
