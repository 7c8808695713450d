//! Passwords and privileges.

use std::sync::Arc;

use super::{TTL, busy, enter, failure, fenced, leave, renew, set, with_user};

use crate::backend::redis::RedisConfig;
use crate::backend::redis::test_server::{Rig, TestServer, block_on};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, EarlierCommands, Failure, LockKind, Notifications, Push,
    ReleaseReply, Token, op,
};

const LEAST: &str = "+evalsha +eval +set +get +del +pexpire +pttl +publish +subscribe +unsubscribe +ping \
                     +time +hset +hget +hdel +rpush +lpush +lpop +lrem +lindex";

#[test]
fn a_wrong_or_missing_password_is_refused_with_what_to_do() {
    let server = TestServer::start(&["--requirepass", "secret"]);
    for url in [server.url(), format!("redis://:wrong@127.0.0.1:{}/", server.port)] {
        let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
        for _ in 0..2 {
            let cause = rig.wait_for_down();
            assert_eq!(cause.kind, Failure::Refused, "{cause}");
            assert!(cause.to_string().contains("URL") && !cause.to_string().contains("wrong@"), "{cause}");
        }
    }
    let url = format!("redis://:secret@127.0.0.1:{}/", server.port);
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    rig.wait_until_up();
    assert!(!rig.backend.describe().contains("secret") && !format!("{:?}", rig.backend).contains("secret"));
}

#[test]
fn the_least_privileges_that_are_documented_are_enough() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "least", &format!("~p:* &p:* {LEAST}"));
    let connect = |client| {
        let config = RedisConfig { prefix: "p:".to_owned(), ..RedisConfig::new(&url, client).unwrap() };
        let rig = Rig::start(config);
        assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
        rig
    };
    let (a, b) = (connect("a"), connect("b"));
    a.send("k", fenced(1, AcquireMode::Try, 1)).unwrap();
    a.send("k", renew(1, TTL)).unwrap();
    busy(b.send("k", fenced(2, AcquireMode::Wait, 1)));
    b.send("k", fenced(2, AcquireMode::WaitAgain, 1)).unwrap();
    a.send("k", leave(1)).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    assert_eq!(a.send("j", set(3)).unwrap(), AcquireReply::Acquired { server_time: None, fence: None });
    a.send("j", leave(3)).unwrap();
    assert!(block_on(a.backend.force_release(&Arc::from("k"))).unwrap());
    // Without CLIENT KILL the former links may be alive.
    let ids = server.client_ids(|line| line.contains("user=least") && line.contains("sub=0"));
    for id in ids {
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
    a.wait_for_down();
    assert_eq!(a.wait_until_up().0, EarlierCommands::MayArrive);
}

fn pushed(url: &str, client: &str) -> Rig {
    let rig = Rig::start(RedisConfig::new(url, client).unwrap());
    rig.wait_until_pushed();
    rig
}

fn reads(token: u64, mode: AcquireMode) -> op::Acquire {
    op::Acquire { kind: LockKind::Shared, ..enter(token, mode) }
}

/// The rights for shared locks are documented apart.
#[test]
fn without_the_rights_for_shared_locks_no_key_is_left_that_never_expires() {
    let server = TestServer::start(&[]);
    for (name, more) in [("none", ""), ("later", "+zcard +zadd")] {
        let few = pushed(&with_user(&server, name, &format!("~* &* {LEAST} {more}")), name);
        let error = few.send("k", reads(1, AcquireMode::Try)).unwrap_err();
        assert_eq!(error.kind, Failure::Refused, "{error}");
        assert!(error.to_string().contains("grant the commands"), "{error}");
        assert_eq!(server.run::<i64>("EXISTS k dl1:m:k"), 0);
    }
}

/// A push before the script is refused would promise a grant that is not stored.
#[test]
fn who_lacks_a_right_for_shared_locks_leaves_a_free_lock_to_the_readers() {
    let server = TestServer::start(&[]);
    let reader = pushed(&server.url(), "reader");
    for (number, more) in [(2, ""), (3, "+zcard"), (4, "+zcard +zadd")] {
        let name = format!("few{number}");
        let few = pushed(&with_user(&server, &name, &format!("~* &* {LEAST} {more}")), &name);
        few.send("k", set(1)).unwrap();
        busy(reader.send("k", reads(number, AcquireMode::Wait)));
        assert_eq!(few.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
        assert_eq!(server.run::<i64>("EXISTS k dl1:m:k"), 0, "{more}");
        for key in server.keys() {
            assert_ne!(server.run::<i64>(&format!("PTTL {key}")), -1, "{key} {more}");
        }
        assert!(reader.send("k", reads(number, AcquireMode::WaitAgain)).unwrap().is_acquired());
        reader.send("k", leave(number)).unwrap();
    }
    // Pushes arrive in their order, so there was none before.
    server.run_words::<()>(&["PUBLISH", "dl1:c:reader", "p dl1:reader:9 k"]);
    assert!(matches!(reader.wait_for_push(), Push::Gap { token: Token(9), .. }));
    // With the two rights that a grant needs, all readers get the lock.
    let enough = with_user(&server, "enough", &format!("~* &* {LEAST} +zadd +pexpireat"));
    let enough = pushed(&enough, "enough");
    enough.send("k", set(1)).unwrap();
    for number in [5, 6] {
        busy(reader.send("k", reads(number, AcquireMode::Wait)));
    }
    assert_eq!(enough.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    for number in [5, 6] {
        assert!(matches!(reader.wait_for_push(), Push::Grant { token, .. } if token == Token(number)));
    }
    assert_eq!(server.run::<i64>("ZCARD dl1:m:k"), 2);
}

/// The ticket can be used again then.
#[test]
fn a_take_over_that_is_refused_leaves_the_lock_to_its_holder() {
    let server = TestServer::start(&[]);
    let rig = Rig::start(RedisConfig::new(&with_user(&server, "late", "~* &* +@all -time"), "a").unwrap());
    rig.wait_until_up();
    server.run::<()>("SET k dl1:x:1 PX 60000");
    for fences in [0, 1] {
        let op = op::Replace { token: Token(2), ttl: TTL, fences, holder: "dl1:x:1".into() };
        assert_eq!(failure(rig.send("k", op)), Failure::Refused);
        assert_eq!(server.run::<String>("GET k"), "dl1:x:1");
    }
}

#[test]
fn with_client_info_and_kill_the_former_links_are_dead() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "more", &format!("~* &* {LEAST} +client|info +client|kill"));
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    rig.wait_until_up();
    for id in server.client_ids(|line| line.contains("user=more") && line.contains("sub=0")) {
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
    rig.wait_for_down();
    assert_eq!(rig.wait_until_up().0, EarlierCommands::Ended);
}

#[test]
fn without_pub_sub_locks_work_and_waiters_must_poll() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "mute", "~* resetchannels +@all");
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    assert_eq!(rig.wait_until_up(), (EarlierCommands::Ended, Notifications::Off));
    let other = Rig::up(&server, "b");
    rig.send("k", set(1)).unwrap();
    // A forbidden PUBLISH costs neither the release nor the waiter its place.
    busy(other.send("k", enter(2, AcquireMode::Wait)));
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    assert_eq!(server.run::<String>("GET k"), "dl1:b:2");
}

#[test]
fn a_forbidden_script_is_refused_with_the_permissions_to_grant() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "noeval", "~* &* +@all -evalsha -eval");
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    rig.wait_until_up();
    let error = rig.send("k", enter(1, AcquireMode::Try)).unwrap_err();
    assert_eq!(error.kind, Failure::Refused);
    assert!(error.to_string().contains("+evalsha"), "{error}");
}
