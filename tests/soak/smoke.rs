//! The soak itself works: it runs through, and its judge finds what a server that throws its data away leads to. How well
//! locks fare is for a longer run to say.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

/// One round with four seconds of faults.
fn soak(topology: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["--seconds", "12", "--seed", "1", "--clients", "2", "--tasks", "12", "--topology", topology])
        .output()
        .unwrap()
}

/// What the machine's load cannot excuse: overlaps, the same within a `min_hold`, tokens used twice, tokens falling,
/// writes out of order.
const SAFETY: std::ops::RangeInclusive<usize> = 3..=7;

#[test]
fn a_short_soak_of_one_server_runs_through_without_a_second_holder() {
    let outcome = soak("one");
    let text = String::from_utf8_lossy(&outcome.stdout);
    let row = text.lines().find_map(|line| line.strip_prefix("| one server")).expect(&text);
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert!(cells[1].parse::<u64>().unwrap() > 0, "{text}");
    assert!(cells[SAFETY].iter().all(|cell| *cell == "0"), "{text}");
}

#[test]
fn overlaps_are_found_where_a_server_forgets() {
    let outcome = soak("control");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
}
