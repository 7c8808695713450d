//! `ls` and `show`: the holders and the waiters.

use distlock_tests::RedisServer;
use serde_json::Value;

use super::{assert_status, distlock, distlock_at, holding, output, text, waiting};

#[test]
fn ls_lists_the_locks_of_all_processes_and_who_has_them() {
    let server = RedisServer::start();
    let _one = holding(&server, "nightly", "report");
    let _other = holding(&server, "shop", "order:42");
    let late = waiting(&server, "late", "report");
    let listed = output(&mut distlock(&server, &["ls"]));
    assert_status(&listed, 0);
    let (lines, errors) = (text(&listed.stdout), text(&listed.stderr));
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!((lines.len(), errors.as_str()), (3, ""), "{lines:?}");
    assert!(lines[0].starts_with("KEY ") && lines[1].starts_with("order:42 "), "{lines:?}");
    let columns: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(
        (columns[0], columns[1], columns[2], columns[5]),
        ("report", "exclusive", "1", "1"),
        "{lines:?}"
    );
    assert!(lines[2].contains(" distlock"), "its program: {lines:?}");

    let waited_for = output(&mut distlock(&server, &["ls", "--waiting", "--sort", "age"]));
    assert!(!text(&waited_for.stdout).contains("order:42") && text(&waited_for.stdout).contains("report"));
    let some = output(&mut distlock(&server, &["ls", "order:*", "--mine", "--sort", "waiters"]));
    assert!(text(&some.stdout).contains("order:42") && !text(&some.stdout).contains("report"));

    let json = output(&mut distlock(&server, &["--json", "ls"]));
    let lines: Vec<Value> =
        text(&json.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let report = &lines[1];
    assert_eq!(
        (&report["key"], &report["held"], &report["waiters"]),
        (&"report".into(), &true.into(), &1.into())
    );
    assert_eq!(report["holders"][0]["program"], "distlock");
    assert_eq!(report["waiting"][0]["pid"], late.process.id());
    assert_eq!(
        (&lines[2]["unanswered"], &lines[2]["unread"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
}

/// The length of a queue may be read without its names.
#[test]
fn waiters_that_cannot_be_named_are_counted() {
    let server = RedisServer::options().user("reader", "on >secret ~* &* +@all -lrange").start();
    let _one = holding(&server, "nightly", "report");
    let _other = holding(&server, "shop", "order:42");
    let _late = waiting(&server, "late", "report");
    let ls = |options: &[&str]| {
        let arguments = [&["--json", "ls"], options].concat();
        let listed = output(&mut distlock_at(&server.url_as("reader", "secret"), &arguments));
        assert_status(&listed, 0);
        let lines: Vec<Value> =
            text(&listed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines
    };
    for lines in [ls(&["--waiting"]), ls(&["--sort", "waiters"])] {
        assert_eq!((&lines[0]["key"], &lines[0]["waiters"]), (&"report".into(), &1.into()));
        assert_eq!(lines[0]["waiting"], serde_json::json!([]));
    }
    assert_eq!(ls(&["--waiting"]).len(), 2, "the lock, and what the list lacks");
}

#[test]
fn show_names_holders_and_waiters_with_their_processes() {
    let server = RedisServer::start();
    let one = holding(&server, "nightly", "report");
    let late = waiting(&server, "late", "report");
    let shown = output(&mut distlock(&server, &["show", "report"]));
    assert_status(&shown, 0);
    let shown = text(&shown.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "report  exclusive  1 waiting");
    assert!(lines[1].starts_with("  held by nightly.") && lines[1].contains(" left"), "{shown}");
    assert!(lines[1].contains(&format!(":{} distlock", one.process.id())), "{shown}");
    assert!(
        lines[2].starts_with("  1. waits late.") && lines[2].contains(&late.process.id().to_string()),
        "{shown}"
    );
    let json = output(&mut distlock(&server, &["--json", "show", "report"]));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["holders"][0]["pid"], one.process.id());
    assert_eq!(
        (&json["waiting"][0]["pid"], &json["unanswered"]),
        (&late.process.id().into(), &serde_json::json!([]))
    );
}

/// A foreign key must not control the terminal.
#[test]
fn a_hostile_key_is_printed_by_its_name() {
    let server = RedisServer::start();
    let _one = holding(&server, "nightly", "a\u{1b}[2Jb");
    let listed = text(&output(&mut distlock(&server, &["ls"])).stdout);
    assert!(listed.contains("a\\u{1b}[2Jb") && !listed.contains('\u{1b}'), "{listed:?}");
}

#[test]
fn a_list_that_nobody_reads_on_is_no_error() {
    let server = RedisServer::start();
    let _one = holding(&server, "nightly", "report");
    let line = format!("{} --url {} ls | head -n 0", env!("CARGO_BIN_EXE_distlock"), server.url());
    let shell = std::process::Command::new("bash").args(["-o", "pipefail", "-c", &line]).output().unwrap();
    assert!(shell.stderr.is_empty(), "{}", text(&shell.stderr));
}

#[test]
fn the_manual_page_names_every_command() {
    let server = RedisServer::start();
    let page = output(&mut distlock(&server, &["man"]));
    assert_status(&page, 0);
    let page = text(&page.stdout);
    assert!(page.contains(".TH distlock 1"), "{page}");
    for name in ["run", "leader", "ls", "show", "wait", "release", "top", "doctor", "ping", "completions"] {
        assert!(page.contains(name), "{name}");
    }
    for hidden in ["guardian", "begin"] {
        assert!(!page.contains(&format!("distlock\\-{hidden}")), "{hidden}");
    }
}
