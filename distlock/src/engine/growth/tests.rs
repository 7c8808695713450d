//! The sizes that the test command runs, and those that `docs/scale.md` shows.

use super::fleet::{Load, TTL, work};
use crate::protocol::Pushes;
use crate::simulation::SECOND;

const SIZES: [usize; 3] = [10, 100, 1_000];

#[test]
fn on_one_key_a_section_costs_as_much_in_a_large_fleet_as_in_a_small_one() {
    let tallies = SIZES.map(|size| (size, work(size, Load::OneKey, Pushes::On, 4)));
    for (size, tally) in &tallies {
        // Two, and the questions after the poll gaps.
        assert!(tally.per_section() < 2.1, "{size}: {tally:?}");
        assert!(tally.sections_per_second() > 500.0, "{size}: {tally:?}");
        assert!(tally.queued + 2 >= *size, "{size}: all but the holder wait: {tally:?}");
        // Each waiter asks again every 1.9 to 2.4 seconds, however many sections go by.
        let heartbeats = tally.heartbeats_per_second() / *size as f64;
        assert!(heartbeats < 1.0 / 1.9, "{size}: {heartbeats} {tally:?}");
    }
    let [small, .., large] = tallies.map(|(_, tally)| tally.sections_per_second());
    assert!(large > small * 0.95, "{small} sections/s, and {large} in the large fleet");
}

/// What the test above would see if it did not hold: waiters that hear of nothing ask again and again.
#[test]
fn without_pushes_the_questions_grow_with_the_fleet() {
    let asked = |size| {
        let tally = work(size, Load::OneKey, Pushes::Off, 4);
        tally.commands_per_second() / tally.sections_per_second()
    };
    let (small, large) = (asked(10), asked(100));
    assert!(large > small * 2.0, "{small} commands per section, and {large}");
}

#[test]
fn on_many_keys_a_section_is_two_commands() {
    for size in SIZES {
        let tally = work(size, Load::Sections { keys: 10_000, pause: SECOND / 10 }, Pushes::On, 4);
        let all = tally.commands_per_second() / tally.sections_per_second();
        assert!(tally.per_section() < 2.05 && all < 2.05, "{size}: {all} {tally:?}");
        let sections = tally.sections_per_second() / size as f64;
        assert!(sections > 8.0, "{size}: each runs {sections} sections/s");
    }
}

#[test]
fn a_lock_that_is_held_costs_a_renewal_each_third_of_its_ttl_whoever_holds_it() {
    for size in SIZES {
        let keys = 2_000;
        let tally = work(size, Load::Held { keys }, Pushes::On, 30);
        let expected = keys as f64 * 3.0 / TTL.as_secs_f64();
        let renewals = tally.renewals_per_second();
        assert!((expected * 0.9..expected * 1.2).contains(&renewals), "{size}: {renewals} of {expected}");
        assert!(tally.commands_per_second() < expected * 1.2, "{size}: {tally:?}");
        assert_eq!((tally.locks, tally.queued), (keys, 0), "{size}");
    }
}

/// Prints a JSON object for each size and load.
#[test]
#[ignore = "a measurement, see the module"]
fn large_fleets() {
    let sizes = [100, 1_000, 10_000];
    for size in sizes {
        println!("{}", work(size, Load::OneKey, Pushes::On, 15).json("one key", size));
    }
    for size in sizes {
        let load = Load::Sections { keys: 100_000, pause: SECOND };
        println!("{}", work(size, load, Pushes::On, 5).json("sections of 100 000 keys", size));
    }
    for size in sizes {
        println!(
            "{}",
            work(size, Load::Held { keys: 100_000 }, Pushes::On, 30).json("100 000 keys held", size)
        );
    }
}
