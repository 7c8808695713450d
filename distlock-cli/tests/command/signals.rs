//! Signals that are sent to `distlock run`.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use distlock_tests::{Direction, PostgresServer, Proxy, RedisServer, eventually_blocking, residue};
use rustix::process::Signal;

use super::{Running, assert_status, is_free, output, until_dead};

/// Like [`super::distlock`], but with default actions for signals, even if the process that runs the tests ignores
/// them.
fn distlock(server: &RedisServer, arguments: &[&str]) -> Command {
    distlock_at(&server.url(), arguments)
}

fn distlock_at(url: &str, arguments: &[&str]) -> Command {
    let plain = super::distlock_at(url, arguments);
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null());
    command
}

#[test]
fn they_are_passed_on_to_all_of_the_command() {
    let server = RedisServer::start();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        let script = "sleep 1000 & echo $!; exec sleep 1000";
        let mut running = Running::start(&mut distlock(&server, &["run", "--key", "k", "-c", script]));
        let child = running.line();
        running.signal(signal);
        // A shell makes background processes ignore the signals of a terminal.
        if signal == Signal::INT {
            running.signal(Signal::TERM);
        }
        // It dies by the same signal as the command, so a shell that waits for it notices that.
        let found = running.status().signal().expect("it has died of a signal");
        assert!(found == signal.as_raw() || (signal == Signal::INT && found == 15), "{signal:?} {found}");
        until_dead(&child);
        assert!(is_free(&server, "k"));
    }
}

/// The command decides whether it ends.
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
    for signal in [Signal::TERM, Signal::INT] {
        let arguments = ["run", "--key", "k", "--wait", "forever", "--", "true"];
        let mut waiting = Running::start(&mut distlock(&server, &arguments));
        eventually_blocking("it waits", || server.exists("dl1:q:k"));
        waiting.signal(signal);
        assert_eq!(waiting.status().signal(), Some(signal.as_raw()));
    }
    holder.signal(Signal::TERM);
    holder.status();
    assert_status(&output(&mut distlock(&server, &["run", "--key", "k", "--wait", "0", "--", "true"])), 0);
    residue::expires_within(&server, Duration::from_secs(20));
}

/// The replies are late, and the release needs another connection, so it is sent long after the signal. (If the lock is
/// granted before the signal, the command gets it.)
#[test]
fn a_lock_that_is_granted_when_the_wait_has_ended_is_released() {
    let server = PostgresServer::start();
    let proxy = Proxy::to(&server.address());
    let at = |arguments: &[&str]| output(&mut super::distlock_at(&server.url(), arguments));
    assert_status(&at(&["ping"]), 0);
    proxy.delay(Direction::Replies, Duration::from_millis(60));
    let is_released = |under: &[&str], key: &str| {
        let arguments = [under, &[key, "--ttl", "10m", "--", "sleep", "1000"]].concat();
        let mut running = Running::start(&mut distlock_at(&server.url_through(&proxy), &arguments));
        eventually_blocking("the server has granted the lock", || at(&["show", key]).status.success());
        running.signal(Signal::TERM);
        assert_eq!(running.status().signal(), Some(15));
        at(&["show", key]).status.code() == Some(1)
    };
    for under in [&["run", "--key"][..], &["leader"]] {
        // A very slow machine may need longer for the connection than the command waits.
        assert!(["a", "b", "c", "d", "e", "f"].iter().any(|key| is_released(under, key)), "{under:?}");
    }
}

/// A process that the command leaves behind continues under the lock.
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

/// A JVM lists its threads on SIGQUIT, and continues.
#[test]
fn a_leader_whose_command_survives_a_quit_has_a_later_term() {
    let server = RedisServer::start();
    let script = "trap 'echo dump' QUIT; echo $DISTLOCK_FENCE; while :; do sleep 0.01; done";
    let arguments = ["leader", "office", "--ttl", "3s", "--kill-after", "500ms", "-c", script];
    let mut running = Running::start(&mut distlock(&server, &arguments));
    let first: u64 = running.line().parse().unwrap();
    running.signal(Signal::QUIT);
    assert_eq!(running.line(), "dump");
    assert_status(&output(&mut distlock(&server, &["release", "office", "--force"])), 0);
    let second: u64 = running.line().parse().unwrap();
    assert!(second > first);
    running.signal(Signal::TERM);
    assert_eq!(running.status().signal(), Some(15));
}

/// This also works for a stopped command.
#[test]
fn a_command_that_is_stopped_can_be_ended() {
    let server = RedisServer::start();
    let mut running =
        Running::start(&mut distlock(&server, &["run", "--key", "k", "-c", "echo $$; exec sleep 1000"]));
    let child = running.line();
    let child = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
    rustix::process::kill_process(child, Signal::STOP).unwrap();
    running.signal(Signal::TERM);
    assert_eq!(running.status().signal(), Some(15));
    assert!(is_free(&server, "k"));
}

/// Like the first process of a container: it inherits processes, and does not read their status.
const HEEDLESS: &str = "
import ctypes, subprocess, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
sys.exit(subprocess.run(sys.argv[1:]).returncode)
";

/// The number of the group stays in use for as long as no parent reads the status.
#[test]
fn processes_that_have_ended_do_not_keep_the_lock() {
    let server = RedisServer::start();
    // The orphan ends after the command has.
    let script = "pid=$$; (while kill -0 $pid 2>&-; do sleep 0.01; done) & exit 3";
    for under in [&["run", "--key", "k"][..], &["leader", "k"]] {
        let plain = distlock(&server, &[under, &["-c", script]].concat());
        let mut command = Command::new("python3");
        command.args(["-c", HEEDLESS]).arg(plain.get_program()).args(plain.get_args());
        assert_status(&output(command.stdin(Stdio::null())), 3);
        assert!(is_free(&server, "k"));
    }
}
