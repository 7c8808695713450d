//! The soak itself works: it runs through and finds nothing on one server, and its judge finds what clients do that
//! lock nothing. How well locks fare is for a longer run to say.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

/// One round with four seconds of faults.
fn soak(topology: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["--seconds", "12", "--seed", "1", "--clients", "2", "--tasks", "12", "--topology", topology])
        .output()
        .unwrap()
}

#[test]
fn a_short_soak_of_one_server_breaks_no_promise() {
    let outcome = soak("one");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
}

#[test]
fn overlaps_are_found_where_half_of_the_clients_lock_nothing() {
    let outcome = soak("control");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
}
