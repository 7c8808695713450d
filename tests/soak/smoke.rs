//! The soak itself works: it runs through, and finds no second holder on one server. How well locks fare is for a
//! longer run to say, and `--topology control` shows that the judge finds overlaps.

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
