//! A release begins with a script for one case only: no request waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{busy, enter, failure, leave, set, with_user};

use crate::backend::redis::RedisConfig;
use crate::backend::redis::scripts::SCRIPTS;
use crate::backend::redis::test_scripted::{Answer, Scripted};
use crate::backend::redis::test_server::{Rig, TestServer};
use crate::backend::{AcquireMode, Failure, Push, ReleaseReply, ServerTime, Token, op};

const RELEASED: ReleaseReply = ReleaseReply::Released { gap: false };

/// The replies of a server while a connection is made.
fn welcome(words: &[&str]) -> Answer {
    match words {
        ["PING"] => Answer::Line("+PONG\r\n"),
        ["EVAL", "return 1", ..] => Answer::Line(":1\r\n"),
        _ => Answer::Line("-ERR unknown command\r\n"),
    }
}

/// How many scripts `deed` runs.
fn scripts_of(server: &TestServer, deed: impl FnOnce()) -> u64 {
    let before = server.scripts("calls");
    deed();
    server.scripts("calls") - before
}

#[test]
fn it_is_all_that_a_lock_needs_for_which_nobody_waits() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    assert_eq!(scripts_of(&server, || assert_eq!(rig.send("k", leave(1)).unwrap(), RELEASED)), 1);
    assert_eq!(server.keys().len(), 0);
}

#[test]
fn where_others_wait_a_second_script_hands_on_and_the_next_release_begins_with_that() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    for round in 0..100 {
        let key = format!("k{round}");
        let begun = Instant::now();
        let [first, second] = [1, 2].map(|number| {
            a.send(&key, set(number)).unwrap();
            busy(b.send(&key, enter(number, AcquireMode::Wait)));
            let hand_on = || assert_eq!(a.send(&key, leave(number)).unwrap(), RELEASED);
            let scripts = scripts_of(&server, hand_on);
            assert!(matches!(b.wait_for_push(), Push::Grant { token, .. } if token == Token(number)));
            // A lock that was handed on: others are expected to wait behind it.
            let run = op::Release { handoffs_began: Some(ServerTime(1)), ..leave(number) };
            assert_eq!(scripts_of(&server, || assert_eq!(b.send(&key, run).unwrap(), RELEASED)), 1);
            scripts
        });
        assert_eq!(first, 2);
        // Half a second later, no waiter is expected.
        if begun.elapsed() < Duration::from_millis(500) {
            assert_eq!(second, 1);
            return;
        }
    }
    panic!("each of a hundred rounds took longer than half a second");
}

#[test]
fn an_attempt_that_is_undone_does_not_begin_with_it() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    let undo = op::Release { ends: op::Ends::Other, ..leave(2) };
    let leaves = || assert_eq!(b.send("k", undo).unwrap(), ReleaseReply::Cancelled);
    assert_eq!(scripts_of(&server, leaves), 1);
}

#[test]
fn what_is_not_ours_any_more_is_not_touched() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::NotHeld);
    server.run::<()>("SET k theirs");
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::NotHeld);
    assert_eq!(server.run::<String>("GET k"), "theirs");
    server.run::<()>("DEL k");
    server.run::<()>("RPUSH k theirs");
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::NotHeld);
    assert_eq!(server.run::<i64>("LLEN k"), 1);
}

#[test]
fn a_server_that_has_forgotten_the_scripts_learns_them_again() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    a.send("alone", set(1)).unwrap();
    a.send("awaited", set(2)).unwrap();
    busy(b.send("awaited", enter(2, AcquireMode::Wait)));
    server.run::<()>("SCRIPT FLUSH");
    assert_eq!(a.send("alone", leave(1)).unwrap(), RELEASED);
    server.run::<()>("SCRIPT FLUSH");
    assert_eq!(a.send("awaited", leave(2)).unwrap(), RELEASED);
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    for script in [&SCRIPTS.leave_alone, &SCRIPTS.leave] {
        assert_eq!(server.run_words::<Vec<i64>>(&["SCRIPT", "EXISTS", &script.hash]), [1]);
    }
}

#[test]
fn it_needs_no_right_that_the_other_scripts_do_not_need() {
    let server = TestServer::start(&[]);
    let rights = "~* &* +eval +evalsha +get +lindex +del +ping +set +subscribe +time";
    let config = RedisConfig::new(&with_user(&server, "few", rights), "a").unwrap();
    let rig = Rig::start(config);
    rig.wait_until_up();
    rig.send("k", set(1)).unwrap();
    assert_eq!(rig.send("k", leave(1)).unwrap(), RELEASED);
}

#[test]
fn a_connection_that_ends_between_the_two_scripts_leaves_the_outcome_open() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Scripted::start(move |words| match words {
        ["EVALSHA", hash, ..] if *hash == SCRIPTS.leave_alone.hash => Answer::Line("$-1\r\n"),
        ["EVALSHA", hash, ..] if *hash == SCRIPTS.leave.hash => {
            count.fetch_add(1, Ordering::SeqCst);
            Answer::Close
        }
        _ => welcome(words),
    });
    let rig = Rig::start(RedisConfig::new(&server.url(), "a").unwrap());
    rig.wait_until_up();
    assert_eq!(failure(rig.send("k", leave(1))), Failure::Unknown);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_server_that_always_asks_for_another_form_is_not_asked_without_end() {
    let server = Scripted::start(move |words| match words {
        ["EVAL", "return 1", ..] => welcome(words),
        ["EVAL" | "EVALSHA", ..] => Answer::Line("-NOSCRIPT none\r\n"),
        _ => welcome(words),
    });
    let rig = Rig::start(RedisConfig::new(&server.url(), "a").unwrap());
    rig.wait_until_up();
    assert_eq!(failure(rig.send("k", leave(1))), Failure::Unknown);
}
