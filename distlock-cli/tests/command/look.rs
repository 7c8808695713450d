//! Shows locks, and releases them by force.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use distlock_tests::RedisServer;

use super::{Running, assert_status, distlock, holding, is_free, output, text};

#[test]
fn show_says_who_holds_a_lock() {
    let server = RedisServer::start();
    let free = output(&mut distlock(&server, &["show", "k"]));
    assert_status(&free, 1);
    assert_eq!(text(&free.stdout), "k  free\n");
    let mut holder = {
        let arguments = ["--name", "nightly", "run", "--key", "k", "-c", "echo begun; sleep 1000"];
        Running::start(&mut distlock(&server, &arguments))
    };
    assert_eq!(holder.line(), "begun");
    let held = output(&mut distlock(&server, &["show", "k"]));
    assert_status(&held, 0);
    let shown = text(&held.stdout);
    assert!(shown.starts_with("k  exclusive  0 waiting\n  held by nightly."), "{shown}");
    let json = output(&mut distlock(&server, &["--json", "show", "k"]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["key"], &json["held"], &json["kind"]),
        (&"k".into(), &true.into(), &"exclusive".into())
    );
    assert!(json["holders"][0]["client"].as_str().unwrap().starts_with("nightly."), "{json}");
    assert!(json["holders"][0]["left_ms"].as_u64().unwrap() <= 30_000);
}

#[test]
fn wait_returns_when_the_lock_is_free_and_does_not_take_it() {
    let server = RedisServer::start();
    server.raw(&["SET", "k", "somebody", "PX", "1500"]);
    assert_status(&output(&mut distlock(&server, &["wait", "k", "--wait", "300ms"])), 75);
    assert_status(&output(&mut distlock(&server, &["wait", "k"])), 0);
    assert!(is_free(&server, "k"));
}

#[test]
fn release_asks_unless_it_is_forced() {
    let server = RedisServer::start();
    assert_status(&output(&mut distlock(&server, &["release", "k", "--force"])), 1);
    server.raw(&["SET", "k", "dl1:nightly.0123:4", "PX", "60000"]);
    let unasked = output(&mut distlock(&server, &["release", "k"]));
    assert_status(&unasked, 64);
    assert!(text(&unasked.stderr).contains("not a terminal"), "{}", text(&unasked.stderr));
    assert!(text(&unasked.stderr).contains("--force"), "{}", text(&unasked.stderr));
    assert!(!is_free(&server, "k"));
    let released = output(&mut distlock(&server, &["release", "k", "--force"]));
    assert_status(&released, 0);
    assert_eq!(text(&released.stdout), "k was taken from nightly.0123\n");
    assert!(is_free(&server, "k"));
}

/// The holder that was shown may have released the lock to the next one since then.
#[test]
fn release_takes_it_from_the_holder_that_is_named_and_from_no_other() {
    let server = RedisServer::start();
    server.raw(&["SET", "k", "dl1:nightly.0123:4", "PX", "60000"]);
    let refused =
        output(&mut distlock(&server, &["release", "k", "--force", "--token", "dl1:nightly.0123:3"]));
    assert_status(&refused, 1);
    assert!(
        text(&refused.stderr).contains("now has another holder: nightly.0123"),
        "{}",
        text(&refused.stderr)
    );
    assert!(!is_free(&server, "k"));
    let released =
        output(&mut distlock(&server, &["release", "k", "--force", "--token", "dl1:nightly.0123:4"]));
    assert_status(&released, 0);
    assert!(is_free(&server, "k"));
}

/// The holder in the question may have changed when the user answers.
#[test]
fn release_leaves_the_lock_to_whom_it_was_handed_between_question_and_answer() {
    let server = RedisServer::start();
    server.raw(&["SET", "k", "dl1:first.0123:4", "PX", "60000"]);
    let answered = |meanwhile: &[&str]| {
        let mut command = Command::new("script");
        command.args(["-qec", "$DISTLOCK release k; echo status: $?", "/dev/null"]);
        command.env("DISTLOCK_URL", server.url()).env("DISTLOCK", env!("CARGO_BIN_EXE_distlock"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut screen = process.stdout.take().unwrap();
        let mut shown = Vec::new();
        while !text(&shown).contains("[y/N]") {
            let mut bytes = [0; 256];
            let count = screen.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "it has ended: {}", text(&shown));
            shown.extend_from_slice(&bytes[..count]);
        }
        server.raw(meanwhile);
        let mut keyboard = process.stdin.take().unwrap();
        keyboard.write_all(b"y\n").unwrap();
        screen.read_to_end(&mut shown).unwrap();
        process.wait().unwrap();
        text(&shown)
    };
    let shown = answered(&["SET", "k", "dl1:second.4567:8", "PX", "60000"]);
    assert!(shown.contains("held by first.0123"), "{shown}");
    assert!(shown.contains("now has another holder: second.4567") && shown.contains("status: 1"), "{shown}");
    assert_eq!(server.get("k").as_deref(), Some("dl1:second.4567:8"));
    let shown = answered(&["PING"]);
    assert!(shown.contains("k was taken from second.4567") && shown.contains("status: 0"), "{shown}");
    assert!(is_free(&server, "k"));
    server.raw(&["SET", "k", "dl1:third.89ab:1", "PX", "60000"]);
    let shown = answered(&["DEL", "k"]);
    assert!(shown.contains("released meanwhile") && shown.contains("status: 1"), "{shown}");
}

/// It ends one of several holders, or all holders that were shown.
#[test]
fn release_ends_the_leases_of_the_readers_that_are_named() {
    let server = RedisServer::start();
    let manager = distlock::blocking::LockManager::connect(server.url()).unwrap();
    let other = distlock::blocking::LockManager::connect(server.url()).unwrap();
    let one = manager.lock("k").shared().acquire().unwrap();
    let two = other.lock("k").shared().acquire().unwrap();
    let released = output(&mut distlock(&server, &["release", "k", "--force", "--token", &one.owner()]));
    assert_status(&released, 0);
    assert!(other.lock("k").try_acquire().unwrap().is_none(), "the other one holds it");
    two.check().unwrap();
    let released = output(&mut distlock(&server, &["release", "k", "--force"]));
    assert_status(&released, 0);
    assert!(is_free(&server, "k"));
}

#[test]
fn ping_takes_a_lock_and_gives_it_back() {
    let server = RedisServer::start();
    let ping = output(&mut distlock(&server, &["ping"]));
    assert_status(&ping, 0);
    assert!(text(&ping.stdout).starts_with("ok, "), "{}", text(&ping.stdout));
    assert!(distlock_tests::residue::left_below(std::slice::from_ref(&server), "").is_empty());
}

#[test]
fn shells_complete_it() {
    let server = RedisServer::start();
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&mut distlock(&server, &["completions", shell]));
        assert_status(&script, 0);
        assert!(text(&script.stdout).contains("max-holders"), "{shell}");
    }
}

#[test]
fn a_prefix_applies_to_every_key() {
    let server = RedisServer::start();
    let arguments = ["--prefix", "shop:", "run", "--key", "k", "-c", "echo begun; sleep 1000"];
    let mut running = Running::start(&mut distlock(&server, &arguments));
    assert_eq!(running.line(), "begun");
    assert!(!is_free(&server, "shop:k"));
    assert_status(&output(&mut distlock(&server, &["--prefix", "shop:", "show", "k"])), 0);
    assert_status(&output(&mut distlock(&server, &["show", "k"])), 1);
}

/// Like a pipe to `head`: the output is lost, and the exit status is the same.
#[test]
fn a_closed_pipe_changes_no_status() {
    let server = RedisServer::start();
    let _holder = holding(&server, "holder", "k");
    for arguments in [
        &["show", "k"][..],
        &["show", "other"],
        &["ls"],
        &["--json", "ls"],
        &["ping"],
        &["doctor"],
        &["man"],
        &["completions", "bash"],
        &["sql", "postgres"],
    ] {
        let open = output(&mut distlock(&server, arguments));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = output(distlock(&server, arguments).stdout(writer));
        assert_eq!(closed.status.code(), open.status.code(), "{arguments:?}: {}", text(&closed.stderr));
        assert!(!text(&closed.stderr).contains("panic"), "{arguments:?}: {}", text(&closed.stderr));
    }
}

#[test]
fn a_closed_standard_error_changes_no_status() {
    let server = RedisServer::start();
    // Without a subcommand, the help is printed.
    for (arguments, status) in [(&[][..], 64), (&["show", ""], 64), (&["--verbose", "ping"], 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = output(distlock(&server, arguments).stderr(writer));
        assert_eq!(closed.status.code(), Some(status), "{arguments:?}");
    }
}
