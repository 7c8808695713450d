//! Processes as a whole: that fork, that end, that have many managers.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Command, Output};

use distlock_tests::{RedisServer, eventually_blocking};

fn one_process(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_one-process")).args(words).output().unwrap()
}

#[track_caller]
fn went_well(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim() == "ok", "{:?} {said} {complained}", output.status);
}

#[test]
fn a_forked_child_is_told_at_once_and_touches_nothing_in_memory() {
    went_well(&one_process(&["forked", "memory:"]));
}

#[test]
fn a_forked_child_is_told_at_once_and_touches_nothing_on_a_server() {
    let server = RedisServer::start();
    went_well(&one_process(&["forked", &server.url()]));
    eventually_blocking("nothing is left", || distlock_tests::residue::keys(&server).is_empty());
}

#[test]
fn a_forked_child_touches_no_file_that_its_parent_has_locked() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", directory.path().display());
    went_well(&one_process(&["forked", &url]));
    went_well(&one_process(&["forked-from-a-file", &url]));
}

/// Commands of stores that their callers poll, as most stores allow.
#[test]
fn a_forked_child_touches_no_command_that_its_caller_polls() {
    went_well(&one_process(&["forked-while-polled"]));
}

/// A release that has not left the process when it ends would keep the key for 10 minutes.
#[test]
fn what_is_dropped_at_the_end_of_a_process_is_released() {
    const RUNS: usize = 30;
    let server = RedisServer::start();
    for way in ["dropped", "dropped-in-a-runtime", "panics"] {
        for run in 0..RUNS {
            let output = one_process(&["short-lived", &server.url(), way, &format!("{way}{run}")]);
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ok", "{output:?}");
        }
    }
    // The process waits 50 ms at most: a machine that is busy with something else may need longer, rarely.
    eventually_blocking("the keys are free", || distlock_tests::residue::keys(&server).len() <= 2);
}

/// The limit on many machines is 1 024 for the whole process.
#[test]
fn hundreds_of_managers_in_memory_need_no_descriptors() {
    went_well(&one_process(&["many-managers", "300", "64"]));
}
