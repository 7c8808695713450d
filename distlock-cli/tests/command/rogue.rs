//! Tests with a hostile client on the same server. The command ends, stays within its memory limit, does not trust
//! forged data, and prints no characters that act on a terminal.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use distlock_fixtures::{ESCAPE_CODES, RogueClient, peak_memory, wait_until};
use distlock_tests::{BOUND, RedisServer};
use serde_json::Value;

use super::top::Terminal;
use super::{distlock, distlock_at, holding, is_free, text, waiting};

/// It needs about 15 MB without the hostile client.
const MOST_MEMORY: u64 = 96 << 20;
/// It waits for clients for at most half a minute, and may have to print a hundred thousand lines.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// The result of a command.
struct Done {
    status: i32,
    lines: Vec<String>,
    errors: String,
}

/// Reads a pipe to its end on another thread. Otherwise the process would block.
fn read(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Runs a command to its end, and measures its memory.
fn run(command: &mut Command) -> Done {
    let mut process =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let (lines, errors) = (read(process.stdout.take().unwrap()), read(process.stderr.take().unwrap()));
    let status = ended(&mut process);
    let lines = text(&lines.join().unwrap());
    let lines = lines.strip_suffix('\n').unwrap_or(&lines).split('\n').map(str::to_owned).collect();
    Done { status, lines, errors: text(&errors.join().unwrap()) }
}

/// Repeats a command until its output has the expected content, because on a slow machine an honest client may reply
/// too late.
fn run_until(server: &RedisServer, arguments: &[&str], shows: impl Fn(&Done) -> bool) -> Done {
    let mut done = None;
    wait_until("everybody has answered in time", ENDS_WITHIN, || {
        shows(done.insert(run(&mut distlock(server, arguments))))
    });
    done.expect("it was run")
}

fn ended(process: &mut Child) -> i32 {
    let mut status = None;
    wait_until("it ends", ENDS_WITHIN, || {
        assert_memory(process.id());
        status = process.try_wait().unwrap();
        status.is_some()
    });
    status.and_then(|status| status.code()).expect("it was not killed")
}

#[track_caller]
fn assert_memory(pid: u32) {
    let most = peak_memory(pid).unwrap_or(0);
    assert!(most < MOST_MEMORY, "{} MiB", most >> 20);
}

impl Done {
    fn has_line(&self, parts: &[&str]) -> bool {
        self.lines.iter().any(|line| parts.iter().all(|part| line.contains(part)))
    }

    /// Checks that the output does not act on a terminal, and that only the command itself begins lines.
    #[track_caller]
    fn assert_harmless(&self) {
        let all = format!("{}\n{}", self.lines.join("\n"), self.errors);
        for code in ESCAPE_CODES.chars().filter(|c| !c.is_ascii_graphic() && !matches!(c, ' ' | '\n')) {
            assert!(!all.contains(code), "{code:?} in {all:?}");
        }
        assert!(!all.contains("\nforged line"), "{all:?}");
    }
}

#[test]
fn thousands_of_strange_locks_hide_none() {
    let server = RedisServer::start();
    let _one = holding(&server, "nightly", "honest");
    // `top` reads this many within the time for one look, even on a slow machine.
    server.write_many(3_000);
    let mut terminal = Terminal::start(&server, "--every 200ms");
    terminal.until_shown("3001 held");
    terminal.types("/honest\r");
    terminal.until_shown("filter: honest");
    terminal.until_shown(" distlock");
    terminal.types("q");
    terminal.until_shown("status: 0");

    server.write_many(20_000);
    let is_whole = |done: &Done| done.has_line(&["honest "]) && done.lines.len() > 1_000;
    let all = run_until(&server, &["ls"], is_whole);
    assert_eq!(all.status, 0, "{}", all.errors);
    assert!(all.lines.iter().any(|line| line.starts_with("honest ")));
    assert_eq!(all.lines.len(), 1 + 1 + 20_000, "{}", all.errors);
    let some = run(&mut distlock(&server, &["ls", "honest*"]));
    assert_eq!((some.status, some.lines.len()), (0, 2), "{:?}", some.lines);
    assert_eq!(run(&mut distlock(&server, &["ls", "--sort", "age"])).status, 0);
    assert_eq!(run(&mut distlock(&server, &["show", "honest"])).status, 0);
    let examined = run(&mut distlock(&server, &["doctor"]));
    assert_eq!(examined.status, 0, "{:?} {}", examined.lines, examined.errors);
}

#[test]
fn names_and_keys_of_others_are_shown_and_do_nothing() {
    let server = RedisServer::start();
    let _one = holding(&server, "nightly", "k");
    let _waits = waiting(&server, "late", "k");
    let foreign = format!("foreign{ESCAPE_CODES}");
    server.raw(&["SET", "foreign", &foreign, "PX", "600000"]);
    server.write_escape_codes("k");
    // It sends no heartbeat.
    server.raw(&["SET", "silent", &format!("dl1:rogue.{ESCAPE_CODES}silent:7"), "PX", "600000"]);
    for arguments in [
        &["ls"][..],
        &["ls", "--sort", "waiters"],
        &["--json", "ls"],
        &["show", "k"],
        &["show", "foreign"],
        &["--json", "show", "foreign"],
        &["doctor"],
        &["--json", "doctor"],
        &["run", "--key", "foreign", "--wait", "0", "--", "true"],
        &["run", "--key", &foreign, "--shared", "--", "true"],
        &["wait", "foreign", "--wait", "0"],
        &["release", "foreign", "--token", "another", "--force"],
        &["release", "foreign", "--force"],
    ] {
        let done = run(&mut distlock(&server, arguments));
        done.assert_harmless();
        if arguments.contains(&"--json") {
            for line in &done.lines {
                serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            }
        }
    }
    let listed = run(&mut distlock(&server, &["ls"]));
    assert!(listed.lines.iter().any(|line| line.contains(r"\u{1b}[31m") && line.contains(r"\u{202e}")));
    assert!(listed.errors.contains("no sign of life from rogue."), "{}", listed.errors);
}

#[test]
fn fields_of_megabytes_are_not_kept() {
    let server = RedisServer::start();
    let one = holding(&server, "nightly", "honest");
    server.write_huge_fields("honest", &server.get("honest").unwrap());
    // A slow machine needs time for this much data.
    let patient = format!("{}?response_timeout=60s", server.url());
    for arguments in [&["ls"][..], &["ls", "--sort", "age"], &["doctor"]] {
        let done = run(&mut distlock_at(&patient, arguments));
        assert!(done.status == 0, "{:?} {}", done.lines, done.errors);
    }
    let garbage = RogueClient::garbage(&server);
    wait_until("it has sent much", BOUND * 4, || garbage.sent() > 300);
    assert_memory(one.process.id());
    drop(garbage);
    // It has not lost its lock, and reports its name.
    assert!(!is_free(&server, "honest"));
    wait_until("it has written that again", BOUND, || {
        let shown = run(&mut distlock(&server, &["show", "honest"]));
        shown.status == 0 && shown.lines[1].contains(" distlock")
    });
}
