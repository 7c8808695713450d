//! Tests of whole processes, which fork, end, and have many managers.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

use distlock::LockManager;
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

/// Commands of stores that their callers poll, which most stores allow.
#[test]
fn a_forked_child_touches_no_command_that_its_caller_polls() {
    went_well(&one_process(&["forked-while-polled"]));
}

/// If the process ended before it sent the release, the key would stay taken for 10 minutes.
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
    // The process waits 50 ms at most. A busy machine may rarely need longer.
    eventually_blocking("the keys are free", || distlock_tests::residue::keys(&server).len() <= 2);
}

/// The limit on many machines is 1 024 for the whole process.
#[test]
fn hundreds_of_managers_in_memory_need_no_descriptors() {
    went_well(&one_process(&["many-managers", "300", "64"]));
}

/// A process in which no thread can be started, because no address space has room for a stack of this size. The test is
/// the process itself: libtest runs it on the main thread then.
#[test]
fn a_manager_whose_thread_cannot_be_started_refuses_requests() {
    const STACK: (&str, &str) = ("RUST_MIN_STACK", "1152921504606846976");
    if std::env::var(STACK.0).as_deref() == Ok(STACK.1) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let request = async { LockManager::in_memory().lock("k").acquire().await };
        let error = runtime.block_on(request).unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("the I/O thread: "), "{error}");
        return;
    }
    let name = "processes::a_manager_whose_thread_cannot_be_started_refuses_requests";
    let mut test = Command::new(std::env::current_exe().unwrap());
    let output = test.args(["--exact", name, "--test-threads=1"]).env(STACK.0, STACK.1).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Each process holds the lock that the other one requests. One of the two requests ends, and its error names both
/// processes.
#[test]
fn one_of_two_processes_that_wait_for_each_other_gives_way() {
    let server = RedisServer::start();
    let mut processes = [["a", "b"], ["b", "a"]].map(|[held, wanted]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_one-process"));
        command.args(["nested", &server.url(), held, wanted]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        (child, said)
    });
    for (_, said) in &mut processes {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "holds\n");
    }
    for (child, _) in &mut processes {
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
    let ids = processes.each_ref().map(|(child, _)| child.id());
    let mut ends = processes.map(|(mut child, mut said)| {
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success());
        rest.trim().to_owned()
    });
    ends.sort_by_key(|end| end != "ok");
    assert_eq!(ends[0], "ok");
    let named = &ends[1];
    for id in ids {
        assert!(named.contains(&format!(":{id})")), "{named}");
    }
    for part in ["holds `a` and waits for `b`", "holds `b` and waits for `a`"] {
        assert!(named.contains(part), "{named}");
    }
    eventually_blocking("nothing is left", || distlock_tests::residue::keys(&server).is_empty());
}
