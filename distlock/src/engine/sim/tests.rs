//! The runs that the test command makes.

use super::config::{PROFILES, Profile, Use, Uses};
use super::search::{Search, profile_named};
use super::{Violation, numbered, run, run_once};
use crate::protocol::mutant::switch;
use crate::simulation::digest::Digest;
use crate::simulation::{Account, number};

const EXCLUSIVE: Uses = Uses::All(Use::Exclusive);

/// `SEEDS` runs from number `FIRST` on. Tests run side by side. Shows the first violation step by step.
fn runs(search: Search) {
    // Runs with tickets or the real driver take two and three times as long. `scripts/test.sh --all` makes more of all.
    let most = if matches!(search, Search::Driven(_) | Search::Tickets(_)) { 1_000 } else { 4_000 };
    let (first, runs) = (number("FIRST").unwrap_or(0), number("SEEDS").unwrap_or(most));
    let mut found: Option<Box<Violation>> = None;
    let mut others = Vec::new();
    for (seed, profile) in (first..first + runs).map(numbered) {
        if others.len() == 40 {
            break;
        }
        if let Err(violation) = run(seed, profile, search) {
            others.push(violation.line());
            found.get_or_insert(violation);
        }
    }
    if let Some(first) = found {
        panic!("{}\n{}", first.report(), others.join("\n"));
    }
}

#[test]
fn no_seed_breaks_a_rule_of_exclusive_locks() {
    runs(Search::One(EXCLUSIVE));
}

#[test]
fn no_seed_breaks_a_rule_of_shared_and_limited_locks() {
    runs(Search::One(Uses::Drawn));
}

#[test]
fn no_seed_breaks_a_rule_of_several_keys_at_once() {
    runs(Search::Several(EXCLUSIVE));
}

#[test]
fn no_seed_breaks_a_rule_of_several_shared_keys_at_once() {
    runs(Search::Several(Uses::All(Use::Readers(0.6))));
}

#[test]
fn no_seed_breaks_a_rule_of_tickets() {
    runs(Search::Tickets(EXCLUSIVE));
}

#[test]
fn no_seed_breaks_a_rule_of_tickets_where_readers_want_the_lock() {
    runs(Search::Tickets(Uses::All(Use::Readers(0.4))));
}

#[test]
fn no_seed_breaks_a_rule_with_the_real_driver() {
    runs(Search::Driven(EXCLUSIVE));
}

#[test]
fn no_seed_breaks_a_rule_of_shared_and_limited_locks_with_the_real_driver() {
    runs(Search::Driven(Uses::Drawn));
}

/// Shows the run that a failure has named, see the module. Without `SEED` it checks that a run is the same each time.
#[test]
fn replay() {
    let Some(seed) = number("SEED") else {
        for search in [Search::One(Uses::Drawn), Search::Driven(Uses::Drawn)] {
            let account = || run_once(4, Profile::Links, search, Account::Written).kernel.trace;
            assert_eq!(account(), account(), "{search}");
        }
        return;
    };
    let profile = match std::env::var("PROFILE") {
        Ok(name) => profile_named(&name).unwrap_or_else(|| panic!("no profile is called {name}")),
        Err(_) => panic!("PROFILE says which of its runs"),
    };
    let search = Search::from_environment();
    if let (Search::Case(case), true) = (search, std::env::var_os("BROKEN").is_some()) {
        switch(Some(case.fault));
    }
    match run(seed, profile, search) {
        Ok(stats) => println!("seed {seed}: {stats:?}"),
        Err(violation) => panic!("{}", violation.report()),
    }
}

/// For each profile, one number for all that happens in some of its runs; see [`digest`](super::digest).
#[test]
#[ignore = "a tool, see the module"]
fn trace_digests() {
    let seeds = number("SEEDS").unwrap_or(60);
    let searches = [Search::One(EXCLUSIVE), Search::One(Uses::Drawn), Search::Several(EXCLUSIVE)];
    for profile in PROFILES {
        for search in searches {
            let mut digest = Digest::default();
            for seed in 0..seeds {
                let world = run_once(seed, profile, search, Account::Written);
                digest.add(
                    &world.kernel.trace.unwrap_or_default(),
                    &format!("{:?} {:?}", world.stats, world.kernel.failure),
                );
            }
            println!("engine {profile:?} {search}: {}", digest.finish());
        }
    }
}
