//! Lost locks, unreachable servers, and a killed `distlock run`: in each case, the command does not outlive its lease.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use distlock_tests::{RedisServer, eventually_blocking};
use rustix::process::Signal;

use super::{
    Running, assert_status, distlock, holding, is_alive, is_free, output, until_dead, until_it_waits,
};

/// A command that starts a child, and prints the child's process id.
const WITH_CHILD: &str = "sleep 1000 & echo $!; wait";
/// A command with a child, neither of which ends when asked to.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 0.05; done";

fn run(server: &RedisServer, options: &[&str], script: &str) -> Running {
    let arguments = [&["run", "--key", "k"], options, &["-c", script]].concat();
    Running::start(&mut distlock(server, &arguments))
}

#[test]
fn a_lock_that_is_taken_away_ends_the_command() {
    let server = RedisServer::start();
    let mut running = run(&server, &["--ttl", "3s", "--kill-after", "1s"], WITH_CHILD);
    let child = running.line();
    assert_status(&output(&mut distlock(&server, &["release", "k", "--force"])), 0);
    assert_eq!(running.status().code(), Some(76));
    assert!(!is_alive(&child));
}

#[test]
fn a_command_that_ignores_the_signal_is_killed() {
    let server = RedisServer::start();
    let mut running = run(&server, &["--ttl", "3s", "--kill-after", "500ms"], STUBBORN);
    let child = running.line();
    server.raw(&["SET", "k", "somebody else"]);
    assert_eq!(running.status().code(), Some(76));
    assert!(!is_alive(&child));
    assert_eq!(server.get("k").as_deref(), Some("somebody else"), "it was not ours to release");
}

#[test]
fn a_loss_may_kill_at_once_or_be_ignored() {
    let server = RedisServer::start();
    let options = ["--ttl", "3s", "--kill-after", "1s", "--on-lost"];
    let mut running = run(&server, &[&options[..], &["kill"]].concat(), STUBBORN);
    let child = running.line();
    server.raw(&["SET", "k", "somebody else"]);
    assert_eq!(running.status().code(), Some(76));
    assert!(!is_alive(&child));
    server.raw(&["DEL", "k"]);
    let script = "echo begun; read line < /dev/fd/$DISTLOCK_LOST_FD; echo $line; exit 4";
    let mut running = run(&server, &[&options[..], &["ignore"]].concat(), script);
    assert_eq!(running.line(), "begun");
    server.raw(&["SET", "k", "somebody else"]);
    assert_eq!(running.line(), "lost", "it is told");
    assert_eq!(running.status().code(), Some(4));
}

/// No process of the command is left when the lease may have expired, counted from before the server was killed.
fn is_ended_within_its_lease(away: impl FnOnce(&mut RedisServer), script: &str) {
    let mut server = RedisServer::start();
    let mut running = run(&server, &["--ttl", "6s", "--kill-after", "1500ms"], script);
    let child = running.line();
    // The last renewal was not later than this.
    let last_renewal = Instant::now();
    away(&mut server);
    let latest = last_renewal + Duration::from_secs(6);
    until_dead(&child);
    assert!(Instant::now() < latest, "it has outlived its lease");
    assert_eq!(running.status().code(), Some(76));
}

#[test]
fn a_server_that_dies_ends_the_command_before_the_lease_ends() {
    is_ended_within_its_lease(RedisServer::kill9, WITH_CHILD);
}

#[test]
fn a_server_that_hangs_ends_even_a_stubborn_command_before_the_lease_ends() {
    is_ended_within_its_lease(|server| server.stop(), STUBBORN);
}

#[test]
fn a_server_that_comes_back_in_time_does_not_disturb_the_command() {
    let mut server = RedisServer::options().append_only().start();
    let script = "echo begun; read line; exit 3";
    let mut command = distlock(&server, &["run", "--key", "k", "--ttl", "20s", "-c", script]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    assert_eq!(running.line(), "begun");
    server.restart();
    assert_status(&output(&mut distlock(&server, &["ping"])), 0);
    assert!(!is_free(&server, "k"));
    drop(running.process.stdin.take());
    assert_eq!(running.status().code(), Some(3));
    assert!(is_free(&server, "k"));
}

#[test]
fn a_limit_of_time_is_kept() {
    let server = RedisServer::start();
    for limit in [&["--max-hold", "2s"][..], &["--ttl", "2s", "--no-renew"]] {
        let start = Instant::now();
        let mut running = run(&server, &[&["--kill-after", "500ms"], limit].concat(), STUBBORN);
        let child = running.line();
        until_dead(&child);
        assert!(start.elapsed() > Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(running.status().code(), Some(76));
    }
}

/// The loss of a lease that is not renewed soon is found when it is released.
#[test]
fn a_loss_that_the_release_finds_is_told_like_an_earlier_one() {
    let server = RedisServer::start();
    for (options, status) in [(&[][..], 76), (&["--on-lost", "ignore"], 0)] {
        let script = ["-c", "echo on; read x; exit 0"];
        let arguments = [&["run", "--key", "k", "--ttl", "600s"], options, &script].concat();
        let mut command = distlock(&server, &arguments);
        let mut running = Running::start(command.stdin(Stdio::piped()).stderr(Stdio::piped()));
        assert_eq!(running.line(), "on");
        server.raw(&["SET", "k", "another"]);
        drop(running.process.stdin.take());
        assert_eq!(running.status().code(), Some(status), "{options:?}");
        let told = std::io::read_to_string(running.process.stderr.take().unwrap()).unwrap();
        assert!(told.contains("lost"), "{options:?}: {told}");
        assert_eq!(server.get("k").as_deref(), Some("another"));
        server.raw(&["DEL", "k"]);
    }
}

/// The guardian ends a command whose `distlock run` is dead.
#[test]
fn a_run_that_is_killed_does_not_leave_its_command_behind() {
    let server = RedisServer::start();
    is_ended_by_the_guardian(&server, Stdio::inherit);
}

/// The guardian also ends it if its message has no reader, or blocks for ever.
#[test]
fn a_guardian_that_cannot_write_ends_the_command_all_the_same() {
    let server = RedisServer::start();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    is_ended_by_the_guardian(&server, || closed.try_clone().unwrap().into());
    let (_unread, mut full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while full.write(&[0; 4096]).is_ok() {}
    while full.write(&[0]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    is_ended_by_the_guardian(&server, || full.try_clone().unwrap().into());
}

fn is_ended_by_the_guardian(server: &RedisServer, stderr: impl Fn() -> Stdio) {
    for script in [WITH_CHILD, STUBBORN] {
        let arguments = ["run", "--key", "k", "--ttl", "60s", "--kill-after", "1s", "-c", script];
        let mut running = Running::start(distlock(server, &arguments).stderr(stderr()));
        let child = running.line();
        running.signal(Signal::KILL);
        until_dead(&child);
        // Only the command has this pipe, so it closes with the last of its processes.
        assert_eq!(running.lines.by_ref().count(), 0);
        running.status();
        assert!(!is_free(server, "k"), "the lease has outlived the command");
        server.raw(&["DEL", "k"]);
    }
}

/// It may be killed at any time, even before the command has begun.
#[test]
fn a_run_may_be_killed_at_any_time() {
    let server = RedisServer::start();
    for delay in 0..30 {
        let mut running =
            run(&server, &["--ttl", "6s", "--kill-after", "200ms"], "echo begun; exec sleep 1000");
        let until = Instant::now() + Duration::from_millis(delay * 2);
        eventually_blocking("it is time", || Instant::now() >= until);
        running.signal(Signal::KILL);
        // Only the command has this pipe, so it closes with the last of its processes.
        let printed: Vec<_> = running.lines.by_ref().map(Result::unwrap).collect();
        assert!(printed.is_empty() || printed == ["begun"], "{printed:?}");
        server.raw(&["DEL", "k", "dl1:q:k", "dl1:e:k"]);
    }
}

/// A command that writes its name and the time into a file repeatedly, and does not end when asked to.
fn writing(name: &str, file: &Path) -> String {
    format!(
        "trap '' TERM; echo begun; while :; do echo {name} $(date +%s%N) >> {}; sleep 0.02; done",
        file.display()
    )
}

/// The first and the last time at which `name` wrote.
fn interval(name: &str, file: &Path) -> (u64, u64) {
    let written = std::fs::read_to_string(file).unwrap();
    let times = written.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let times: Vec<u64> = times.collect();
    (times[0], *times.last().unwrap())
}

/// A debugger, a freezer or a shell may stop it. Then the lease is not renewed, and the guardian ends the command
/// before the lease expires.
#[test]
fn a_run_that_is_stopped_has_its_command_ended_before_another_begins() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    for (on_lost, key) in [("signal", "a"), ("kill", "b")] {
        let file = directory.path().join(key);
        let options = ["--ttl", "3s", "--kill-after", "1s", "--on-lost", on_lost, "--wait", "1m"];
        let run = |name: &str, script: &str| {
            let arguments = [&["run", "--key", key], &options[..], &["-c", script, "--", name]].concat();
            Running::start(&mut distlock(&server, &arguments))
        };
        let mut first = run("first", &writing("first", &file));
        assert_eq!(first.line(), "begun");
        first.signal(Signal::STOP);
        let mut second = run("second", &writing("second", &file));
        assert_eq!(second.line(), "begun");
        eventually_blocking("the second one works", || {
            std::fs::read_to_string(&file).unwrap().contains("second")
        });
        let ((_, first_end), (second_begin, _)) = (interval("first", &file), interval("second", &file));
        assert!(first_end < second_begin, "{first_end} {second_begin}: two at once");
        first.signal(Signal::CONT);
        assert_eq!(first.status().code(), Some(76));
    }
}

/// The command has already used a part of its time.
#[test]
fn a_run_that_is_killed_while_it_ends_its_command_gives_it_no_further_time() {
    let server = RedisServer::start();
    let ttl = Duration::from_secs(8);
    let script = "trap 'echo asked' TERM; sleep 1000 & echo $!; while :; do sleep 0.01; done";
    let mut running = run(&server, &["--ttl", "8s", "--kill-after", "4s"], script);
    let child = running.line();
    let last_renewal = Instant::now();
    server.stop();
    // `sleep` ends when asked to, and the shell does not.
    assert_eq!(running.line(), "asked");
    let asked = Instant::now();
    // This is so late that a new period would end after the lease.
    eventually_blocking("half of its time is over", || asked.elapsed() > Duration::from_secs(2));
    running.signal(Signal::KILL);
    until_dead(&child);
    // Only the command has this pipe, so it closes with the last of its processes.
    assert_eq!(running.lines.by_ref().count(), 0);
    assert!(last_renewal.elapsed() < ttl, "it has outlived its lease: {:?}", last_renewal.elapsed());
}

/// A package is upgraded while a job waits for its lock.
#[test]
fn a_run_whose_file_is_replaced_while_it_waits_runs_its_command() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let (program, other) = (directory.path().join("distlock"), directory.path().join("new"));
    std::fs::copy(env!("CARGO_BIN_EXE_distlock"), &program).unwrap();
    std::fs::write(&other, "").unwrap();
    let mut holder = holding(&server, "holder", "k");
    let plain =
        distlock(&server, &["--name", "waiter", "run", "--key", "k", "--wait", "1m", "--", "echo", "ran"]);
    let mut waiting = Running::start(std::process::Command::new(&program).args(plain.get_args()));
    until_it_waits(&server, "waiter", "k");
    std::fs::rename(&other, &program).unwrap();
    holder.signal(Signal::TERM);
    holder.status();
    assert_eq!(waiting.line(), "ran");
    assert_eq!(waiting.status().code(), Some(0));
}
