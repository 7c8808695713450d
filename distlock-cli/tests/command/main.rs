//! The command `distlock`, run as a process with a separate server. Its commands end, are killed, ignore signals, and
//! leave processes behind.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod crowd;
mod doctor;
mod faults;
mod hand_over;
mod job_control;
mod leader;
mod list;
mod look;
mod operator;
mod options;
mod rogue;
mod run;
mod shell;
mod signals;
mod stores;
mod top;
mod web;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use distlock_tests::{BOUND, RedisServer, eventually_blocking};
use rustix::process::{Pid, Signal, kill_process};

/// `distlock …` on this server.
fn distlock(server: &RedisServer, arguments: &[&str]) -> Command {
    distlock_at(&server.url(), arguments)
}

fn distlock_at(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
    command.arg("--url").arg(url).args(arguments).stdin(Stdio::null());
    command
        .env_remove("DISTLOCK_URL")
        .env_remove("DISTLOCK_URL_FILE")
        .env_remove("DISTLOCK_PREFIX")
        .env_remove("DISTLOCK_NAME");
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("it can be started")
}

#[track_caller]
fn assert_status(output: &Output, status: i32) {
    assert_eq!(status_in_shell(output.status), status, "{}", String::from_utf8_lossy(&output.stderr));
}

/// The value of `$?` in a shell.
fn status_in_shell(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).expect("it has ended")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running `distlock`. It is killed, together with its command, when this is dropped.
struct Running {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it can be started");
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Running { process, lines }
    }

    /// A line that the command prints.
    fn line(&mut self) -> String {
        self.lines.next().expect("it goes on").expect("it prints text")
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it lives");
    }

    /// Waits until it has ended.
    fn status(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < BOUND, "it goes on");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its guardian then ends its command.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn is_alive(pid: &str) -> bool {
    // A process that has ended but was not reaped yet is not alive.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn until_dead(pid: &str) -> Duration {
    eventually_blocking("the process has ended", || !is_alive(pid))
}

/// A separate process that holds a lock.
fn holding(server: &RedisServer, name: &str, key: &str) -> Running {
    let arguments = ["--name", name, "run", "--key", key, "-c", "echo begun; sleep 1000"];
    let mut running = Running::start(&mut distlock(server, &arguments));
    assert_eq!(running.line(), "begun");
    running
}

/// A separate process that waits for a lock. Returns as soon as it waits.
fn waiting(server: &RedisServer, name: &str, key: &str) -> Running {
    let arguments =
        ["--name", name, "run", "--key", key, "--wait", "forever", "-c", "echo got it; sleep 1000"];
    let running = Running::start(&mut distlock(server, &arguments));
    until_it_waits(server, name, key);
    running
}

fn until_it_waits(server: &RedisServer, name: &str, key: &str) {
    let queue = format!("dl1:q:{key}");
    eventually_blocking("it waits", || {
        server.run_words::<Vec<String>>(&["LRANGE", &queue, "0", "-1"]).join(" ").contains(name)
    });
}

fn is_free(server: &RedisServer, key: &str) -> bool {
    !server.exists(key)
}
