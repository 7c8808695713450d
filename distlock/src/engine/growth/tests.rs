//! The sizes that the test command runs, and those that `docs/scale.md` shows.

use std::time::Duration;

use super::crowd::{Crowd, ideal};
use super::fleet::{Load, TTL, take_turns, work};
use crate::protocol::{Notifications, Tuning};
use crate::simulation::{MILLI, SECOND};

const SIZES: [usize; 3] = [10, 100, 1_000];

#[test]
fn on_one_key_a_section_costs_as_much_in_a_large_fleet_as_in_a_small_one() {
    let tallies = SIZES.map(|size| (size, work(size, Load::OneKey, Notifications::On, 4)));
    for (size, tally) in &tallies {
        // Two commands, and the questions after the poll gaps.
        assert!(tally.per_section() < 2.1, "{size}: {tally:?}");
        assert!(tally.sections_per_second() > 500.0, "{size}: {tally:?}");
        assert!(tally.queued + 2 >= *size, "{size}: all but the holder wait: {tally:?}");
        // Each waiter asks again every 1.9 to 2.4 seconds, independent of the number of sections.
        let heartbeats = tally.heartbeats_per_second() / *size as f64;
        assert!(heartbeats < 1.0 / 1.9, "{size}: {heartbeats} {tally:?}");
    }
    let [small, .., large] = tallies.map(|(_, tally)| tally.sections_per_second());
    assert!(large > small * 0.95, "{small} sections/s, and {large} in the large fleet");
}

/// The counterexample to the test above: waiters that get no pushes ask again and again.
#[test]
fn without_pushes_the_questions_grow_with_the_fleet() {
    let asked = |size| {
        let tally = work(size, Load::OneKey, Notifications::Off, 4);
        tally.commands_per_second() / tally.sections_per_second()
    };
    let (small, large) = (asked(10), asked(100));
    assert!(large > small * 2.0, "{small} commands per section, and {large}");
}

#[test]
fn on_many_keys_a_section_is_two_commands() {
    for size in SIZES {
        let tally = work(size, Load::Sections { keys: 10_000, pause: SECOND / 10 }, Notifications::On, 4);
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
        let tally = work(size, Load::Held { keys }, Notifications::On, 30);
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
        println!("{}", work(size, Load::OneKey, Notifications::On, 15).json("one key", size));
    }
    for size in sizes {
        let load = Load::Sections { keys: 100_000, pause: SECOND };
        println!("{}", work(size, load, Notifications::On, 5).json("sections of 100 000 keys", size));
    }
    for size in sizes {
        println!(
            "{}",
            work(size, Load::Held { keys: 100_000 }, Notifications::On, 30).json("100 000 keys held", size)
        );
    }
}

/// As in `benches/family`.
const READERS_AND_WRITERS: Crowd = Crowd { readers: 32, writers: 2, sections: 40, body: 2 * MILLI, pause: 0 };

/// How long the crowd takes and its longest wait, as multiples of what one fair lock without a server would need.
fn against_ideal(processes: usize, crowd: Crowd) -> [f64; 2] {
    let (best, tally) = (ideal(crowd), take_turns(processes, crowd, Tuning::default()));
    [tally.lasted as f64 / best.total as f64, tally.longest_wait as f64 / best.longest_wait as f64]
}

/// A round is one section of the readers and one of each writer. The hand-offs take a tenth of that time, and the gaps
/// a twentieth.
#[test]
fn readers_and_writers_of_several_processes_take_turns_like_those_of_one() {
    for processes in [1, 2, 4] {
        let [total, longest] = against_ideal(processes, READERS_AND_WRITERS);
        assert!(total < 1.25, "{processes} processes: {total}");
        assert!(longest < 4.5, "{processes} processes: {longest}");
    }
}

/// With readers that come and go independently, a writer waits for the readers that have the lock, for readers of other
/// processes that got the lock while the writer asked, and for a gap.
#[test]
fn no_writer_waits_long_for_readers_of_other_processes() {
    for processes in [1, 2, 4, 8] {
        let crowd = Crowd { readers: 16, writers: 1, sections: 200, body: 2 * MILLI, pause: MILLI };
        let tally = take_turns(processes, crowd, Tuning::default());
        assert!(tally.longest_wait < 10 * MILLI, "{processes} processes: {tally:?}");
    }
}

/// As in `benches/waiting`: the gaps for plain pollers add to the waiting time.
#[test]
fn nobody_in_a_queue_of_processes_waits_three_times_as_long_as_the_others() {
    let crowd = Crowd { readers: 0, writers: 8, sections: 1_000, body: MILLI / 2, pause: MILLI };
    let ratio = |gap| {
        let tally = take_turns(8, crowd, Tuning::default().with_gaps(gap));
        tally.longest_wait as f64 / tally.mean_wait()
    };
    let by_default = ratio(Tuning::default().poll_gap);
    assert!(by_default < 2.5, "{by_default}");
    let long = ratio(Duration::from_millis(10));
    assert!(long > 3.0, "what this test is to see: {long}");
}
