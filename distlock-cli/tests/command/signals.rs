//! Signals that are sent to `distlock run`.

use distlock_tests::{RedisServer, eventually_blocking, residue};
use rustix::process::Signal;

use super::{Running, assert_status, distlock, is_free, output, until_dead};

#[test]
fn they_are_passed_on_to_all_of_the_command() {
    let server = RedisServer::start();
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::USR1, 138)]
    {
        let script = "sleep 1000 & echo $!; exec sleep 1000";
        let mut running = Running::start(&mut distlock(&server, &["run", "--key", "k", "-c", script]));
        let child = running.line();
        running.signal(signal);
        // A shell makes background processes ignore what a terminal sends.
        if signal == Signal::INT {
            running.signal(Signal::TERM);
        }
        let found = running.status().code();
        assert!(
            found == Some(status) || (signal == Signal::INT && found == Some(143)),
            "{signal:?} {found:?}"
        );
        until_dead(&child);
        assert!(is_free(&server, "k"));
    }
}

/// It decides itself.
#[test]
fn a_command_may_ignore_them_and_keeps_its_lock() {
    let server = RedisServer::start();
    let script = "trap 'echo got' TERM; echo ready; while :; do sleep 0.01; [ -e \"$1\" ] && exit 5; done";
    let directory = tempfile::tempdir().unwrap();
    let stop = directory.path().join("stop");
    let arguments = ["run", "--key", "k", "-c", script, "--", stop.to_str().unwrap()];
    let mut running = Running::start(&mut distlock(&server, &arguments));
    assert_eq!(running.line(), "ready");
    running.signal(Signal::TERM);
    assert_eq!(running.line(), "got");
    assert!(!is_free(&server, "k"));
    std::fs::write(&stop, "").unwrap();
    assert_eq!(running.status().code(), Some(5));
}

#[test]
fn while_it_waits_they_end_the_wait() {
    let server = RedisServer::start();
    let mut holder =
        Running::start(&mut distlock(&server, &["run", "--key", "k", "-c", "echo begun; sleep 1000"]));
    assert_eq!(holder.line(), "begun");
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let arguments = ["run", "--key", "k", "--wait", "forever", "--", "true"];
        let mut waiting = Running::start(&mut distlock(&server, &arguments));
        eventually_blocking("it waits", || server.exists("dl1:q:k"));
        waiting.signal(signal);
        assert_eq!(waiting.status().code(), Some(status));
    }
    holder.signal(Signal::TERM);
    holder.status();
    assert_status(&output(&mut distlock(&server, &["run", "--key", "k", "--wait", "0", "--", "true"])), 0);
    residue::expires_within(&server, std::time::Duration::from_secs(20));
}

/// What it leaves behind works on under the lock.
#[test]
fn a_process_that_stays_behind_keeps_the_lock() {
    let server = RedisServer::start();
    let script = "sleep 1000 & echo $!";
    let mut running = Running::start(&mut distlock(&server, &["run", "--key", "k", "-c", script]));
    let child = running.line();
    let busy = output(&mut distlock(&server, &["run", "--key", "k", "--wait", "500ms", "--", "true"]));
    assert_status(&busy, 75);
    running.signal(Signal::TERM);
    assert_eq!(running.status().code(), Some(0), "the status of the command itself");
    until_dead(&child);
    assert!(is_free(&server, "k"));
}
