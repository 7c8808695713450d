//! `ls` with a hundred thousand locks of a thousand clients, some of which are silent.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use distlock_tests::{Plan, RedisServer};
use serde_json::Value;

use super::distlock;

const LOCKS: usize = 100_000;
const CLIENTS: usize = 1_000;
/// While this many lines are unread, the list cannot have ended, because they do not fit into a pipe.
const UNREAD: usize = 1_000;
/// The memory limit of the whole process. All locks at once need more than twice as much.
const MOST_KIB: u64 = 60 << 10;

/// A running `ls`. It is killed when this is dropped.
struct Listing {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Listing {
    fn start(server: &RedisServer, arguments: &[&str]) -> Self {
        let mut command = distlock(server, &["--json", "ls"]);
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Listing { process, lines }
    }

    fn line(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().expect("it goes on").unwrap()).unwrap()
    }

    /// The maximum of its memory so far, in KiB.
    fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it runs");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// In the order of the keys, it reads one page at a time, so its memory does not grow with the number of locks.
#[test]
fn a_hundred_thousand_locks_of_a_thousand_clients_need_little_memory() {
    let server = RedisServer::start();
    let silent = [7, 500, 999];
    let plan = Plan { clients: CLIENTS, locks: LOCKS, silent: silent.into() };
    plan.write(&server.url());
    let expected: Vec<String> = (0..LOCKS).map(|number| plan.key(number)).collect();

    let mut listing = Listing::start(&server, &[]);
    let mut most = 0;
    for (number, key) in expected.iter().enumerate() {
        if number + UNREAD == expected.len() {
            most = listing.most_memory();
        }
        let lock = listing.line();
        assert_eq!(lock["key"], **key, "none is missing, none comes twice");
        if number == 0 {
            assert_eq!(
                (&lock["holders"][0]["host"], &lock["holders"][0]["pid"]),
                (&"host-0".into(), &1_000.into())
            );
        }
    }
    let mut unanswered: Vec<String> = serde_json::from_value(listing.line()["unanswered"].take()).unwrap();
    unanswered.sort_unstable();
    assert_eq!(unanswered, silent.map(|number| plan.client(number)));
    assert!(listing.process.wait().unwrap().success());

    assert!(most < MOST_KIB, "{most} KiB");
    // Lines to sort are collected first, up to a limit. This is the additional memory.
    let mut sorted = Listing::start(&server, &["--sort", "age"]);
    sorted.line();
    let collected = sorted.most_memory();
    assert!(collected > MOST_KIB, "{collected} KiB where all are collected, {most} KiB where none are");
}
