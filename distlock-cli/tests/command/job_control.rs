//! `distlock run` as a job of an interactive shell: in pipelines, stopped and continued, in the background, in scripts.

use std::process::{Command, Stdio};

use distlock_tests::{RedisServer, eventually_blocking};
use rustix::process::Signal;

use super::shell::{CTRL_C, CTRL_Z, Shell};
use super::{Running, assert_status, distlock, is_free, output};

/// A command that reads from the keyboard, and ends with status 3.
const READS: &str = "echo ready; read x; echo got:$x; exit 3";
const RUN_READS: &str = "distlock run -k k -- sh reads";

/// A shell, and a file `reads` in its folder.
fn shell(server: &RedisServer) -> Shell {
    let shell = Shell::start(server);
    shell.file("reads", READS);
    shell
}

#[test]
fn the_command_reads_from_the_keyboard_and_the_shell_does_afterwards() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    shell.types(&format!("{RUN_READS}\n"));
    shell.until("ready");
    shell.types("one\n");
    shell.until("got:one");
    assert_eq!(shell.status(), 3);
    // Within a script, which is in the same job and reads, too.
    shell.file("script", &format!("{RUN_READS}; read y; echo then:$y\n"));
    shell.types("sh script\n");
    shell.until("ready");
    shell.types("two\n");
    shell.until("got:two");
    shell.types("three\n");
    shell.until("then:three");
}

/// As `less` does, while the command runs.
#[test]
fn the_next_one_in_a_pipeline_reads_from_the_keyboard() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    shell.file("writes", "mkfifo go; echo first; while read line < go; do echo $line; done");
    shell.file(
        "shows",
        "read x; echo $x; read x < /dev/tty; echo key:$x; echo more > go; read x; echo then:$x; cat",
    );
    shell.types("distlock run -k k -- sh writes | sh shows\n");
    shell.until("first");
    shell.types("typed\n");
    assert_eq!(shell.until_one_of(&["key:typed", "Stopped"]), "key:typed");
    shell.until("then:more");
    shell.types(CTRL_C);
    shell.until("<prompt>");
    eventually_blocking("the lock is free", || is_free(&server, "k"));
}

/// Both processes of a pipeline may use the keyboard, one after the other.
#[test]
fn the_command_in_a_pipeline_reads_from_the_keyboard_too() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    shell.file("shows", "read x; read x; echo $x; read x < /dev/tty; echo key:$x");
    shell.types(&format!("{RUN_READS} | sh shows\n"));
    shell.types("one\n");
    shell.until("got:one");
    shell.types("two\n");
    assert_eq!(shell.until_one_of(&["key:two", "Stopped"]), "key:two");
    assert_eq!(shell.status(), 0);
}

#[test]
fn it_is_stopped_from_the_keyboard_and_goes_on_in_the_foreground() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    shell.types(&format!("{RUN_READS}\n"));
    shell.until("ready");
    for _ in 0..2 {
        shell.types(CTRL_Z);
        shell.until("Stopped");
        shell.until("<prompt>");
        assert!(!is_free(&server, "k"));
        shell.types("fg\n");
        shell.until(RUN_READS);
    }
    shell.types("one\n");
    shell.until("got:one");
    assert_eq!(shell.status(), 3);
}

#[test]
fn one_in_the_background_that_reads_is_stopped_until_it_is_in_the_foreground() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    shell.file("reads", "echo ready; read x; echo got:$x; read y");
    shell.types(&format!("set -b; {RUN_READS} &\n"));
    shell.until("ready");
    shell.until("Stopped");
    shell.until(RUN_READS);
    shell.types("fg\n");
    shell.until(RUN_READS);
    shell.types("one\n");
    shell.until("got:one");
    // Until it takes effect, it discards typed text.
    shell.types(CTRL_C);
    shell.until("<prompt>");
    assert_eq!(shell.status(), 130);
}

#[test]
fn one_in_the_background_of_a_script_does_not_take_the_terminal_from_it() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    let script = "distlock run -k k -- sh -c 'echo begun; exec sleep 1000' &\n\
                  read x; echo got:$x; kill $!; wait; exit 4\n";
    shell.file("script", script);
    shell.types("bash script\n");
    shell.until("begun");
    shell.types("me\n");
    assert_eq!(shell.until_one_of(&["got:me", "Stopped"]), "got:me");
    assert_eq!(shell.status(), 4);
}

/// This holds whether or not the command is in the foreground because it reads from the terminal.
#[test]
fn an_interrupt_ends_the_loop_of_a_script() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    for interpreter in ["bash", "sh"] {
        for (command, typed) in [("echo step; exec sleep 1000", ""), ("read x; echo step; read y", "line\n")]
        {
            let text = "for i in 1 2 3; do distlock run -k k -- sh command; done; echo WENT ON TO ITS END\n";
            shell.file("script", text);
            shell.file("command", command);
            shell.types(&format!("{interpreter} script\n{typed}"));
            shell.until("step");
            shell.types(CTRL_C);
            assert_eq!(
                shell.until_one_of(&["<prompt>", "step", "WENT ON"]),
                "<prompt>",
                "{interpreter} {command}"
            );
            assert_eq!(shell.status(), 130, "{interpreter} {command}");
        }
    }
}

/// No process could continue it, because that terminal has no shell with job control.
#[test]
fn where_nobody_controls_jobs_a_stop_from_the_keyboard_does_not_last() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    shell.types(&format!("script -qec 'exec {RUN_READS}' /dev/null\n"));
    shell.until("ready");
    shell.types(&format!("{CTRL_Z}one\n"));
    shell.until("got:one");
    shell.until("<prompt>");
    assert_eq!(shell.status(), 3);
}

/// A stopped job does not renew its lease, so the guardian ends the command in time.
#[test]
fn one_that_stays_stopped_loses_its_lock_and_its_command() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    shell.types("distlock run -k k --ttl 3s --kill-after 1s -- sh reads\n");
    shell.until("ready");
    shell.types(CTRL_Z);
    shell.until("Stopped");
    let next = ["run", "--key", "k", "--wait", "1m", "--", "true"];
    assert_status(&output(&mut distlock(&server, &next)), 0);
    shell.types("fg\n");
    shell.until("the command was ended");
    assert_eq!(shell.status(), 76);
}

#[test]
fn the_command_stops_and_goes_on_with_the_job() {
    let server = RedisServer::start();
    let mut shell = shell(&server);
    // It starts no process: a parent whose child is stopped before its `exec` counts as one that waits for a disk.
    shell.file("works", "echo =$$=; exec sleep 1000");
    shell.types("set -b; distlock run -k k -- sh works &\n");
    shell.until("=");
    shell.until("=");
    let pid = shell.last_word();
    shell.types("kill -TSTP %1\n");
    shell.until("Stopped");
    eventually_blocking("the command is stopped", || state(&pid) == Some('T'));
    shell.types("bg\n");
    eventually_blocking("the command goes on", || state(&pid).is_some_and(|state| state != 'T'));
    shell.types("kill %1\n");
    eventually_blocking("the lock is free", || is_free(&server, "k"));
}

/// The state of a process, as `ps` shows it: `R`, `S`, `T` and so on.
fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// `nohup` does the same.
#[test]
fn a_signal_that_is_ignored_stays_ignored_in_the_command_too() {
    let server = RedisServer::start();
    let plain = distlock(&server, &["run", "--key", "k", "-c", "echo $$; read line; exit 3"]);
    let mut command = Command::new("env");
    command.arg("--ignore-signal=HUP").arg(plain.get_program()).args(plain.get_args());
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let pid = running.line();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "SIGHUP is signal 1");
    running.signal(Signal::HUP);
    drop(running.process.stdin.take());
    assert_eq!(running.status().code(), Some(3));
}
