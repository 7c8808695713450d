//! `run` without faults, and its error messages.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use distlock_tests::{RedisServer, residue};

use super::{Running, assert_status, distlock, is_free, output, text};

#[test]
fn the_status_is_that_of_the_command() {
    let server = RedisServer::start();
    for (script, status) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
        assert_status(&output(&mut distlock(&server, &["run", "--key", "k", "-c", script])), status);
        assert!(is_free(&server, "k"), "{script}");
    }
    assert_status(&output(&mut distlock(&server, &["run", "--key", "k", "--", "no-such-command"])), 127);
    assert_status(&output(&mut distlock(&server, &["run", "--key", "k", "--", "/"])), 126);
    assert!(residue::left_below(std::slice::from_ref(&server), "").is_empty());
}

/// Rust has its own handler for SEGV and BUS, and ignores PIPE.
#[test]
fn it_dies_of_the_signal_that_has_ended_the_command() {
    let server = RedisServer::start();
    for (name, number) in [("KILL", 9), ("SEGV", 11), ("BUS", 7), ("ABRT", 6), ("PIPE", 13)] {
        let script = format!("ulimit -c 0; kill -{name} $$");
        let status = output(&mut distlock(&server, &["run", "--key", "k", "-c", &script])).status;
        if name == "PIPE" {
            assert_eq!(status.code(), Some(128 + number));
        } else {
            assert_eq!(status.signal(), Some(number), "{name}: {status}");
        }
    }
}

#[test]
fn input_output_and_arguments_pass_through() {
    let server = RedisServer::start();
    let arguments = ["run", "--key", "k", "--", "sh", "-c", "cat; echo $1 >&2", "sh", "two words"];
    let mut command = distlock(&server, &arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"from outside").unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("from outside".into(), "two words\n".into()));
}

#[test]
fn the_environment_names_the_lock() {
    let server = RedisServer::start();
    let script = "echo $DISTLOCK_KEY $DISTLOCK_FENCE; echo $DISTLOCK_TOKEN; read done";
    let mut running = {
        let mut command = distlock(&server, &["--name", "me", "run", "--key", "k", "--fenced", "-c", script]);
        command.stdin(Stdio::piped());
        Running::start(&mut command)
    };
    let line = running.line();
    let (key, fence) = line.split_once(' ').expect("key and token");
    assert!(key == "k" && fence.parse::<u64>().is_ok(), "{line}");
    let token = running.line();
    assert!(token.starts_with("dl1:me."), "{token}");
    assert_eq!(server.get("k").as_deref(), Some(&*token));
    drop(running.process.stdin.take());
    running.status();
    let several = ["run", "--key", "b", "--key", "a", "-c", "echo \"$DISTLOCK_KEY\"$DISTLOCK_FENCE"];
    assert_eq!(text(&output(&mut distlock(&server, &several)).stdout), "a\nb\n");
}

#[test]
fn a_busy_lock_has_a_status_of_its_own() {
    let server = RedisServer::start();
    let mut command = distlock(&server, &["run", "--key", "k", "-c", "echo begun; sleep 1000"]);
    let mut running = Running::start(&mut command);
    assert_eq!(running.line(), "begun");
    let run = |options: &[&str]| {
        let arguments = [&["run", "--key", "k", "--wait", "0"], options, &["--", "echo", "no"]].concat();
        output(&mut distlock(&server, &arguments))
    };
    let refused = run(&[]);
    assert_status(&refused, 75);
    assert!(text(&refused.stderr).contains("is busy") && refused.stdout.is_empty());
    assert_status(&run(&["--busy-exit", "9"]), 9);
    let quiet = run(&["--quiet-busy"]);
    assert_status(&quiet, 0);
    assert!(quiet.stderr.is_empty() && quiet.stdout.is_empty());
    assert_status(&run(&["--shared"]), 75);
}

#[test]
fn readers_share_and_so_many_as_are_allowed_run_at_once() {
    let server = RedisServer::start();
    for (key, kind) in [("r", &["--shared"][..]), ("n", &["--max-holders", "2"])] {
        let hold = [&["run", "--key", key], kind, &["-c", "echo begun; sleep 1000"]].concat();
        let mut first = Running::start(&mut distlock(&server, &hold));
        assert_eq!(first.line(), "begun");
        let second = [&["run", "--key", key, "--wait", "0"], kind, &["--", "true"]].concat();
        assert_status(&output(&mut distlock(&server, &second)), 0);
        let exclusive = ["run", "--key", key, "--wait", "0", "--", "true"];
        let status = output(&mut distlock(&server, &exclusive)).status.code().unwrap();
        assert!([75, 78].contains(&status), "{status}");
    }
}

#[test]
fn what_cannot_work_has_a_status_of_its_own() {
    let server = RedisServer::start();
    let long = ["run", "--key", "k", "--ttl", "3s", "--kill-after", "2s", "--", "true"];
    for wrong in [
        &["run", "--", "true"][..],
        &["run", "--key", "k"],
        &["run", "--key", "k", "--ttl", "soon", "--", "true"],
        &["run", "--key", "", "--", "true"],
        &["run", "--key", "k", "--shared", "--fenced", "--", "true"],
        &long,
        &["run", "--key", "k", "--max-hold", "6s", "--", "true"],
        &["nonsense"],
    ] {
        assert_status(&output(&mut distlock(&server, wrong)), 64);
    }
    server.raw(&["SADD", "set", "member"]);
    assert_status(&output(&mut distlock(&server, &["run", "--key", "set", "--", "true"])), 78);
    let at = |url: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_distlock"));
        output(command.env_remove("DISTLOCK_URL").args(["--url", url]).args(arguments))
    };
    assert_status(&at("carrier-pigeon://h", &["ping"]), 64);
    assert_status(&at("redis://127.0.0.1:1/", &["run", "--key", "k", "--", "true"]), 69);
    let locked = RedisServer::options().password("secret").start();
    assert_status(&at(&format!("redis://:wrong@{}/", locked.address()), &["ping"]), 77);
    let mut nothing = std::process::Command::new(env!("CARGO_BIN_EXE_distlock"));
    assert_status(&output(nothing.env_remove("DISTLOCK_URL").arg("ping")), 64);
}

/// A read-modify-write of a file, which two commands at the same time would corrupt.
#[test]
fn one_at_a_time() {
    const EACH: usize = 5;
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let file = directory.path().join("count");
    std::fs::write(&file, "0").unwrap();
    let script = format!("n=$(cat {0}); sleep 0.02; echo $((n + 1)) > {0}", file.display());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let arguments = ["run", "--key", "k", "--wait", "forever", "-c", &script];
                    assert_status(&output(&mut distlock(&server, &arguments)), 0);
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), (3 * EACH).to_string());
}
