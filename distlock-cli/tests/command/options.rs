//! The general options: the sources of the URL, which may contain a password, and the processes that must not get it.

use std::process::{Command, Stdio};

use distlock_tests::RedisServer;

use super::{assert_status, output, text};

/// `distlock …` without a URL among its arguments.
fn distlock(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
    for name in ["DISTLOCK_URL", "DISTLOCK_URL_FILE", "DISTLOCK_PREFIX", "DISTLOCK_NAME", "DISTLOCK_TOKEN"] {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn the_command_gets_the_url_only_if_that_is_asked_for() {
    let server = RedisServer::options().password("secret").start();
    let url = format!("redis://:secret@{}/", server.address());
    let prints = ["--", "sh", "-c", "echo url: $DISTLOCK_URL"];
    for command in [&["run", "--key", "k"][..], &["leader", "k"]] {
        let without = output(distlock(&[command, &prints].concat()).env("DISTLOCK_URL", &url));
        assert_status(&without, 0);
        assert_eq!(text(&without.stdout).trim(), "url:");
        let with = output(distlock(&[command, &["--pass-url"], &prints].concat()).env("DISTLOCK_URL", &url));
        assert_eq!(text(&with.stdout).trim(), format!("url: {url}"));
    }
    // No process has it on its command line either, where all users see it.
    let lines = ["run", "--key", "k", "-c", "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' '"];
    let seen = output(distlock(&lines).env("DISTLOCK_URL", &url));
    assert_status(&seen, 0);
    assert!(text(&seen.stdout).contains("guardian") && !text(&seen.stdout).contains(&url));
    // A command that uses locks itself gets an error that names the missing option.
    let program = env!("CARGO_BIN_EXE_distlock");
    let nested = output(distlock(&["run", "--key", "k", "--", program, "ping"]).env("DISTLOCK_URL", &url));
    assert_status(&nested, 64);
    assert!(text(&nested.stderr).contains("--pass-url"), "{}", text(&nested.stderr));
}

#[test]
fn the_url_may_stand_in_a_file() {
    let (server, directory) =
        (RedisServer::options().password("secret").start(), tempfile::tempdir().unwrap());
    let file = directory.path().join("url");
    std::fs::write(&file, format!("redis://:secret@{}/\n", server.address())).unwrap();
    let path = file.to_str().unwrap();
    assert_status(&output(&mut distlock(&["--url-file", path, "ping"])), 0);
    assert_status(&output(distlock(&["ping"]).env("DISTLOCK_URL_FILE", path)), 0);
    // A command gets one of the two, as it was named or passed on.
    for pass in [&[][..], &["--pass-url"]] {
        let nested = [&["run", "--key", "k"], pass, &["--", env!("CARGO_BIN_EXE_distlock"), "ping"]].concat();
        assert_status(&output(distlock(&nested).env("DISTLOCK_URL_FILE", path)), 0);
    }
    // An option takes precedence over the environment. Two sources of the same rank are refused.
    let elsewhere = "redis://127.0.0.1:1/";
    assert_status(&output(distlock(&["--url-file", path, "ping"]).env("DISTLOCK_URL", elsewhere)), 0);
    let both = output(distlock(&["ping"]).env("DISTLOCK_URL_FILE", path).env("DISTLOCK_URL", elsewhere));
    assert_status(&both, 64);
    assert_status(&output(&mut distlock(&["--url-file", path, "--url", elsewhere, "ping"])), 64);
    // A pipe can be read only once, and `doctor` connects twice.
    let mut shell = Command::new("bash");
    shell.args(["-c", "$0 --url-file <(cat $1) doctor", env!("CARGO_BIN_EXE_distlock"), path]);
    assert_status(&output(shell.env_remove("DISTLOCK_URL").env_remove("DISTLOCK_URL_FILE")), 0);
    std::fs::write(&file, " \n").unwrap();
    let empty = output(&mut distlock(&["--url-file", path, "ping"]));
    assert_status(&empty, 64);
    assert!(text(&empty.stderr).contains("is empty"), "{}", text(&empty.stderr));
    assert_status(&output(&mut distlock(&["--url-file", "/no/such/file", "ping"])), 64);
    let nothing = output(distlock(&["ping"]).env("DISTLOCK_URL", ""));
    assert_status(&nothing, 64);
    assert!(text(&nothing.stderr).contains("--url-file"), "{}", text(&nothing.stderr));
}

#[test]
fn without_a_subcommand_the_help_is_printed_and_hidden_ones_are_not() {
    for arguments in [&[][..], &["--prefix", "p"]] {
        let told = output(distlock(arguments).env("DISTLOCK_NAME", "me"));
        assert_status(&told, 64);
        let told = text(&told.stderr);
        assert!(told.contains("Runs a command while it holds a lock"), "{told}");
        assert!(!told.contains("guardian") && !told.contains("begin"), "{told}");
    }
}

#[test]
fn json_is_refused_where_nothing_prints_it() {
    for arguments in [
        &["run", "--key", "k", "--", "true"][..],
        &["leader", "k", "--", "true"],
        &["wait", "k"],
        &["release", "k", "--force"],
        &["top"],
        &["web"],
    ] {
        let refused =
            output(&mut distlock(&[&["--url", "redis://127.0.0.1:1/", "--json"], arguments].concat()));
        assert_status(&refused, 64);
        assert!(text(&refused.stderr).contains("--json"), "{}", text(&refused.stderr));
    }
}
