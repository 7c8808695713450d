//! Links that come, break and are replaced.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{TTL, failure, leave, renew, set};

use crate::backend::redis::test_scripted::{Answer, Scripted};
use crate::backend::redis::test_server::{LONG, Rig, TestServer, block_on, finish, idle_seconds, wait_until};
use crate::backend::redis::{RedisBackend, RedisConfig};
use crate::backend::{
    Backend, EarlierCommands, Failure, Notifications, ReleaseReply, RenewReply, ServerTime,
};

#[test]
fn without_a_link_nothing_is_sent() {
    let backend = RedisBackend::new(RedisConfig::new("redis://127.0.0.1:1/", "a").unwrap()).unwrap();
    let key: Arc<str> = Arc::from("k");
    assert_eq!(failure(finish(backend.send_acquire(&key, set(1).into()))), Failure::NotSent);
    assert_eq!(
        failure(block_on(backend.send_renew_all(vec![(key, renew(1, TTL))]).remove(0).results).remove(0)),
        Failure::NotSent
    );
}

#[test]
fn a_server_that_is_down_is_reported_at_every_attempt_and_found_when_it_comes() {
    let mut server = TestServer::start(&[]);
    server.kill();
    let rig = Rig::start(RedisConfig::new(&server.url(), "a").unwrap());
    for _ in 0..3 {
        let cause = rig.wait_for_down();
        assert_eq!(cause.kind, Failure::NotSent);
        assert!(cause.to_string().contains(&format!("127.0.0.1:{}", server.port)), "{cause}");
    }
    server.start_again();
    rig.wait_until_up();
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn a_restarted_server_knows_nothing_of_earlier_links() {
    let mut server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    server.kill();
    server.start_again();
    rig.wait_for_down();
    assert_eq!(rig.wait_until_up().0, EarlierCommands::Ended);
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::NotHeld);
}

#[test]
fn lazy_connects_with_the_first_operation() {
    let server = TestServer::start(&[]);
    let rig = Rig::start(RedisConfig {
        connect: crate::backend::ConnectOn::FirstUse,
        ..RedisConfig::new(&server.url(), "a").unwrap()
    });
    // Another process that started later is connected, and this one has not begun.
    Rig::up(&server, "b");
    assert!(rig.seen().is_empty());
    assert_eq!(server.command_ids("a").len(), 0);
    assert_eq!(failure(rig.send("k", set(1))), Failure::NotSent);
    rig.wait_until_up();
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn a_killed_link_is_replaced_and_dead_for_good() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let ids = server.command_ids("a");
    assert_eq!(ids.len(), 1);
    server.run_words::<()>(&["CLIENT", "KILL", "ID", &ids[0]]);
    assert_eq!(rig.wait_for_down().kind, Failure::Unknown);
    assert_eq!(rig.wait_until_up().0, EarlierCommands::Ended);
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn operations_under_way_fail_as_unknown_when_the_link_is_killed() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let ids = server.command_ids("a");
    // Paused writes are not answered until the pause ends.
    server.run::<()>("CLIENT PAUSE 3000 WRITE");
    let pending: Vec<_> = (0..10).map(|number| rig.begin("k", set(number))).collect();
    wait_until("the pause has caught them", LONG, || {
        !server.client_ids(|line| line.contains(" name=a ") && line.contains(" flags=b ")).is_empty()
    });
    let start = Instant::now();
    server.run_words::<()>(&["CLIENT", "KILL", "ID", &ids[0]]);
    for pending in pending {
        assert_eq!(failure(pending.join().unwrap()), Failure::Unknown);
    }
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
}

#[test]
fn a_frozen_server_costs_a_second_and_its_old_link_is_killed_afterwards() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let old = server.command_ids("a");
    server.stop();
    let start = Instant::now();
    let pending: Vec<_> = (0..10).map(|number| rig.begin("k", set(number))).collect();
    for pending in pending {
        let error = pending.join().unwrap().unwrap_err();
        assert_eq!(error.kind, Failure::Unknown);
        assert!(error.to_string().contains("did not answer"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_millis(1_200), "{:?}", start.elapsed());
    rig.wait_for_down();
    assert_eq!(failure(rig.send("k", set(11))), Failure::NotSent);
    server.resume();
    let (earlier, _) = rig.wait_until_up();
    assert_eq!(earlier, EarlierCommands::Ended);
    let now = server.command_ids("a");
    assert!(!now.contains(&old[0]), "{old:?} {now:?}");
}

#[test]
fn an_idle_frozen_link_is_found_too() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    wait_until("the link is idle", LONG, || idle_seconds(&server, "a") >= 1);
    server.stop();
    let start = Instant::now();
    rig.wait_for_down();
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
    server.resume();
}

#[test]
fn an_idle_link_is_left_in_peace() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    // A PING would end the silence.
    wait_until("the link is silent for seconds", LONG, || idle_seconds(&server, "a") >= 3);
}

#[test]
fn ending_the_run_fails_what_is_under_way() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.stop();
    let pending = rig.begin("k", set(1));
    let backend = Arc::clone(&rig.backend);
    drop(rig);
    assert_eq!(failure(pending.join().unwrap()), Failure::Unknown);
    assert_eq!(failure(finish(backend.send_acquire(&Arc::from("k"), set(2).into()))), Failure::NotSent);
    server.resume();
}

#[test]
fn a_link_whose_answers_belong_to_other_questions_is_given_up() {
    // Knows only scripts, and replies to them with the reply to another command.
    let server = Scripted::start(|words| match words {
        ["EVAL", ..] => Answer::Line(":1\r\n"),
        ["EVALSHA", ..] => Answer::Line("*3\r\n$7\r\nRENEWED\r\n$7\r\ndl1:a:9\r\n$1\r\n5\r\n"),
        _ => Answer::Line("-ERR unknown command\r\n"),
    });
    let url = server.url();
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    assert_eq!(rig.wait_until_up(), (EarlierCommands::Ended, Notifications::Off));
    assert!(matches!(rig.send("k", renew(9, TTL)), Ok(RenewReply::Renewed { server_time: ServerTime(5) })));
    assert_eq!(failure(rig.send("k", renew(8, TTL))), Failure::Unknown);
    assert!(rig.wait_for_down().to_string().contains("does not belong to this command"));
    assert_eq!(rig.wait_until_up().0, EarlierCommands::MayArrive, "what cannot be killed may be alive");
}

#[test]
fn a_unix_socket_serves_like_an_address() {
    let path = std::env::temp_dir().join(format!("distlock-test-{}.sock", std::process::id()));
    let path = path.to_str().unwrap();
    let server = TestServer::start(&["--unixsocket", path]);
    let rig = Rig::start(RedisConfig::new(&format!("redis+unix://{path}?db=3"), "a").unwrap());
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    rig.send("k", set(1)).unwrap();
    assert_eq!(server.run::<i64>("EXISTS k"), 0, "another database");
    server.stop();
    let pending = rig.begin("k", leave(1));
    assert_eq!(failure(pending.join().unwrap()), Failure::Unknown);
    server.resume();
    assert_eq!(rig.wait_until_up().0, EarlierCommands::Ended);
    drop((rig, server));
    std::fs::remove_file(path).unwrap();
}
