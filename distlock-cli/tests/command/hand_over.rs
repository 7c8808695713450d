//! A lock that one command hands over to the next.

use std::process::Stdio;

use distlock_fixtures::eventually_blocking;
use distlock_tests::RedisServer;

use super::{Running, assert_status, distlock, distlock_at, is_free, output, text};

/// Runs a shell text under the lock of a ticket.
fn run(server: &RedisServer, ticket: &str, arguments: &[&str]) -> std::process::Output {
    output(distlock(server, &[&["run"], arguments].concat()).env("DISTLOCK_TICKET", ticket))
}

#[test]
fn a_ticket_is_printed_last_and_continues_the_lock() {
    let server = RedisServer::start();
    let first = output(&mut distlock(
        &server,
        &["run", "--key", "k", "--fenced", "--hand-over", "-c", "echo $DISTLOCK_FENCE"],
    ));
    assert_status(&first, 0);
    let said = text(&first.stdout);
    let [fence, ticket] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(!is_free(&server, "k"));
    let second = run(&server, ticket, &["-c", "echo $DISTLOCK_KEY $DISTLOCK_FENCE ${DISTLOCK_TICKET-none}"]);
    assert_status(&second, 0);
    let said = text(&second.stdout);
    let [key, next, none] = said.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!((key, none) == ("k", "none") && next.parse::<u64>().unwrap() > fence.parse().unwrap(), "{said}");
    assert!(is_free(&server, "k"));
    let used = run(&server, ticket, &["--", "echo", "no"]);
    assert_status(&used, 75);
    assert!(text(&used.stderr).contains("the ticket was used") && used.stdout.is_empty());
    // The lock is not busy.
    for options in [&["--quiet-busy"][..], &["--busy-exit", "9"]] {
        assert_status(&run(&server, ticket, &[options, &["--", "true"]].concat()), 75);
    }
}

#[test]
fn who_is_killed_after_the_ticket_was_printed_is_followed_by_nobody_else() {
    let server = RedisServer::start();
    let record = tempfile::NamedTempFile::new().unwrap();
    let path = record.path().to_str().unwrap();
    let write = |word: &str| format!("echo {word} >> {path}");
    let hold = format!("{}; echo on; read done; true", write("first"));
    let options = ["run", "--key", "k", "--ttl", "600s", "--hand-over", "-c"];
    let mut command = distlock(&server, &[&options[..], &[&hold]].concat());
    let mut first = Running::start(command.stdin(Stdio::piped()));
    assert_eq!(first.line(), "on");
    let third = ["run", "--key", "k", "--wait", "forever", "-c", &write("third")];
    let mut third = Running::start(&mut distlock(&server, &third));
    eventually_blocking("the third waits", || {
        text(&output(&mut distlock(&server, &["show", "k"])).stdout).contains("waits")
    });
    drop(first.process.stdin.take());
    let ticket = first.line();
    drop(first.process.kill());
    assert_status(&run(&server, &ticket, &["-c", &write("second")]), 0);
    assert!(third.status().success());
    assert_eq!(std::fs::read_to_string(path).unwrap(), "first\nsecond\nthird\n");
}

/// No process could take the lock over.
#[test]
fn a_lock_whose_ticket_cannot_be_written_is_released() {
    let server = RedisServer::start();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap().into();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    for stdout in [full(), Stdio::from(closed)] {
        let arguments = ["run", "--key", "k", "--ttl", "1h", "--fenced", "--hand-over", "--", "true"];
        let lost = output(distlock(&server, &arguments).stdout(stdout));
        assert_status(&lost, 69);
        assert!(text(&lost.stderr).contains("the ticket cannot be written"), "{}", text(&lost.stderr));
        assert!(is_free(&server, "k"));
    }
}

#[test]
fn a_command_that_fails_hands_nothing_over() {
    let server = RedisServer::start();
    let failed = output(&mut distlock(&server, &["run", "--key", "k", "--hand-over", "-c", "exit 3"]));
    assert_status(&failed, 3);
    assert!(failed.stdout.is_empty() && is_free(&server, "k"));
}

#[test]
fn what_is_no_ticket_and_what_cannot_be_handed_over_is_wrong_usage() {
    let server = RedisServer::start();
    let first = ["run", "--key", "k", "--ttl", "600s", "--hand-over", "--", "true"];
    let ticket = text(&output(&mut distlock(&server, &first)).stdout);
    // Its reader could take the lock.
    let spoiled = format!("x\n{}", ticket.trim());
    let option = output(&mut distlock(&server, &["run", "--ticket", &spoiled, "--", "true"]));
    for refused in [run(&server, &spoiled, &["--", "true"]), option] {
        assert_status(&refused, 64);
        let told = text(&refused.stderr);
        assert!(told.contains("not the text of a ticket") && !told.contains("dlt1"), "{told}");
    }
    for options in [&["--key", "a", "--key", "b"][..], &["--key", "a", "--shared"]] {
        let refused =
            output(&mut distlock(&server, &[&["run", "--hand-over"], options, &["--", "true"]].concat()));
        assert_status(&refused, 64);
    }
}

#[test]
fn a_store_that_hands_nothing_over_refuses_before_the_program_runs() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let addresses = servers.each_ref().map(|server| server.url().replace("redis://", "").replace('/', ""));
    let url = format!("redis+quorum://{}", addresses.join(","));
    let record = tempfile::NamedTempFile::new().unwrap();
    let write = format!("echo ran >> {}", record.path().display());
    let refused = output(&mut distlock_at(&url, &["run", "--key", "k", "--hand-over", "-c", &write]));
    assert_status(&refused, 64);
    assert!(text(&refused.stderr).contains("a quorum does not hand a lock over"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(record.path()).unwrap(), "");
}
