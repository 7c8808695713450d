//! `distlock leader`: a command in each term.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use distlock_fixtures::eventually_blocking;
use distlock_tests::RedisServer;
use rustix::process::Signal;

use super::{Running, assert_status, distlock, holding, is_free, output, text};

/// Leads for two terms, and ends.
fn leads_twice(server: &RedisServer, stderr: impl Into<Stdio>) {
    let arguments = ["leader", "office", "--ttl", "3s", "--kill-after", "500ms", "-c"];
    let arguments = [&arguments[..], &["echo $DISTLOCK_FENCE; sleep 1000"]].concat();
    let mut running = Running::start(distlock(server, &arguments).stderr(stderr));
    let first: u64 = running.line().parse().unwrap();
    assert_status(&output(&mut distlock(server, &["release", "office", "--force"])), 0);
    let second: u64 = running.line().parse().unwrap();
    assert!(second > first);
    running.signal(Signal::TERM);
    assert_eq!(running.status().signal(), Some(15));
}

#[test]
fn a_leader_runs_its_command_again_in_a_later_term() {
    let server = RedisServer::start();
    leads_twice(&server, Stdio::inherit());
    assert!(is_free(&server, "office"));
}

#[test]
fn a_term_is_told_and_has_a_label_and_a_limit() {
    let server = RedisServer::start();
    let options = ["--name", "first", "leader", "office", "--ttl", "3s", "--kill-after", "500ms"];
    let script = ["--max-hold", "4s", "-c", "echo $DISTLOCK_FENCE; sleep 1000"];
    let mut command = distlock(&server, &[&options[..], &script].concat());
    let mut running = Running::start(command.stderr(Stdio::piped()));
    let mut terms = Vec::new();
    for _ in 0..2 {
        terms.push(running.line());
    }
    // Its label is written when its lease is renewed.
    eventually_blocking("it is shown with its label", || {
        let shown = output(&mut distlock(&server, &["show", "office"]));
        text(&shown.stdout).contains("label distlock leader")
    });
    running.signal(Signal::TERM);
    assert_eq!(running.status().signal(), Some(15));
    let mut told = String::new();
    std::io::Read::read_to_string(&mut running.process.stderr.take().unwrap(), &mut told).unwrap();
    for term in terms {
        assert!(told.contains(&format!("leader of office: term {term} begins")), "{told}");
        assert!(told.contains(&format!("leader of office: term {term} has ended")), "{told}");
    }
}

/// The reader of its messages has ended, and each term prints two.
#[test]
fn a_closed_standard_error_ends_no_leader() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    leads_twice(&RedisServer::start(), writer);
}

#[test]
fn a_candidate_may_wait_for_some_time_only() {
    let server = RedisServer::start();
    let _holder = holding(&server, "holder", "office");
    let arguments = ["leader", "office", "--wait", "100ms", "--", "true"];
    assert_status(&output(&mut distlock(&server, &arguments)), 75);
}

#[test]
fn a_leader_has_the_label_that_it_was_given() {
    let server = RedisServer::start();
    let options = ["leader", "office", "--label", "night shift", "--ttl", "3s", "--kill-after", "500ms"];
    let mut running =
        Running::start(&mut distlock(&server, &[&options[..], &["-c", "echo on; sleep 1000"]].concat()));
    assert_eq!(running.line(), "on");
    eventually_blocking("it is shown with its label", || {
        let shown = output(&mut distlock(&server, &["show", "office"]));
        text(&shown.stdout).contains("label night shift")
    });
    running.signal(Signal::TERM);
    assert_eq!(running.status().signal(), Some(15));
}
