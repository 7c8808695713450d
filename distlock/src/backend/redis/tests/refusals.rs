//! Servers that cannot or may not serve.

use std::sync::Arc;
use std::time::Duration;

use super::{CLAIM, TTL, busy, enter, failure, leave, renew, set};

use crate::backend::redis::RedisConfig;
use crate::backend::redis::test_operations::AnyOp;
use crate::backend::redis::test_server::{Rig, TestServer, block_on, wait_until};
use crate::backend::{AcquireMode, AcquireReply, Backend, Failure, LockKind, Push, ReleaseReply, Token, op};

#[test]
fn a_replica_is_refused_for_now_and_an_operation_that_meets_one_replaces_the_link() {
    let master = TestServer::start(&[]);
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run_words::<()>(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]);
    assert_eq!(failure(rig.send("k", enter(1, AcquireMode::Try))), Failure::Later);
    assert_eq!(rig.wait_for_down().kind, Failure::Later, "the link is given up");
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Later);
    assert!(cause.to_string().contains("replica"), "{cause}");
    server.run::<()>("REPLICAOF NO ONE");
    rig.wait_until_up();
}

#[test]
fn a_replica_never_says_that_a_lock_is_not_ours() {
    let master = TestServer::start(&["--repl-diskless-sync-delay", "0"]);
    let send = |op: AnyOp| move |rig: &Rig| failure(rig.send("k", op));
    let force = |rig: &Rig| failure(block_on(rig.backend.force_release(&Arc::from("k"))));
    let attempts: [&dyn Fn(&Rig) -> Failure; 3] =
        [&send(renew(1, TTL).into()), &send(leave(1).into()), &force];
    for attempt in attempts {
        let server = TestServer::start(&[]);
        let rig = Rig::up(&server, "a");
        rig.send("k", set(1)).unwrap();
        server.run_words::<()>(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]);
        // The master knows nothing of the lock: once its data is here, neither does the replica.
        wait_until("the data of the master is here", TTL / 2, || server.run::<i64>("EXISTS k") == 0);
        assert_eq!(attempt(&rig), Failure::Later);
    }
}

/// A lock that could be acquired by a plain command could not be released.
#[test]
fn without_the_permission_to_run_scripts_nothing_is_acquired() {
    let server = TestServer::start(&[]);
    let allow = |rules: &[&str]| {
        let words = ["ACL", "SETUSER", "somebody"].iter().chain(rules).copied().collect::<Vec<_>>();
        server.run_words::<()>(&words);
    };
    allow(&["on", ">secret", "~*", "&*", "+@all"]);
    let url = server.url().replacen("redis://", "redis://somebody:secret@", 1);
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    rig.wait_until_up();
    rig.send("k", set(1)).unwrap();
    allow(&["-evalsha", "-eval"]);
    assert_eq!(failure(rig.send("k", leave(1))), Failure::Refused);
    assert_eq!(failure(rig.send("j", set(2))), Failure::Refused);
    assert_eq!(server.run::<i64>("EXISTS j"), 0);
    let cause = rig.backend.refusal().unwrap().to_string();
    assert!(cause.contains("+evalsha"), "{cause}");
    allow(&["+@all"]);
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    assert!(rig.backend.refusal().is_none());
    rig.send("j", set(3)).unwrap();
    assert_eq!(server.run::<i64>("EXISTS j"), 1);
    // A refusal that is about one key says nothing of others.
    allow(&["resetkeys", "~j"]);
    assert_eq!(failure(rig.send("k", leave(1))), Failure::Refused);
    assert!(rig.backend.refusal().is_none());
}

#[test]
fn a_cluster_is_refused_with_the_scheme_to_use() {
    let server = TestServer::start(&["--cluster-enabled", "yes"]);
    let rig = Rig::start(RedisConfig::new(&server.url(), "a").unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused);
    assert!(cause.to_string().contains("redis+cluster://"), "{cause}");
}

#[test]
fn out_of_memory_refuses_to_acquire_for_now_and_still_releases() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    server.run::<()>("CONFIG SET maxmemory 1");
    for op in [op::Ask::from(set(2)), enter(2, AcquireMode::Wait).into()] {
        let error = rig.send("j", op).unwrap_err();
        assert_eq!(error.kind, Failure::Later);
        assert!(error.to_string().contains("maxmemory"), "{error}");
    }
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
}

#[test]
fn a_queued_waiter_keeps_its_place_without_memory_for_more() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    for kind in [LockKind::Exclusive, LockKind::Limited { max_holders: 1 }] {
        let wait = |token, mode| {
            let claim = CLAIM;
            op::Acquire { token: Token(token), kind, ttl: TTL, claim, mode, fences: 0 }
        };
        a.send("k", wait(1, AcquireMode::Wait)).unwrap();
        assert!(busy(b.send("k", wait(2, AcquireMode::Wait))).2);
        server.run::<()>("CONFIG SET maxmemory 1");
        assert!(busy(b.send("k", wait(2, AcquireMode::WaitAgain))).2);
        // As if the holder had gone.
        server.run::<()>("DEL k dl1:m:k");
        assert!(matches!(b.send("k", wait(2, AcquireMode::WaitAgain)), Ok(AcquireReply::Acquired { .. })));
        assert_eq!(b.send("k", leave(2)).unwrap(), ReleaseReply::Released { gap: false });
        server.run::<()>("CONFIG SET maxmemory 0");
        assert_eq!(server.keys().len(), 0);
    }
}

#[test]
fn what_keeps_a_server_from_writing_refuses_everything_for_now_and_does_nothing() {
    for (setting, well, code) in [
        ("min-replicas-to-write 1", "min-replicas-to-write 0", "NOREPLICAS"),
        // While the last snapshot has failed.
        ("stop-writes-on-bgsave-error yes", "stop-writes-on-bgsave-error no", "MISCONF"),
    ] {
        let server = TestServer::start(&["--save", "3600 1"]);
        let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
        a.send("k", set(1)).unwrap();
        busy(b.send("k", enter(2, AcquireMode::Wait)));
        server.run::<()>(&format!("CONFIG SET {setting}"));
        if code == "MISCONF" {
            // A directory with the name of the snapshot file makes the snapshot fail.
            let dir: (String, String) = server.run("CONFIG GET dir");
            std::fs::create_dir_all(format!("{}/dump.rdb/in-the-way", dir.1)).unwrap();
            server.run::<String>("BGSAVE");
            wait_until("the snapshot has failed", Duration::from_secs(10), || {
                server.run::<String>("INFO persistence").contains("rdb_last_bgsave_status:err")
            });
        }
        let ops: [AnyOp; 4] =
            [leave(1).into(), renew(1, 2 * TTL).into(), set(3).into(), enter(3, AcquireMode::Wait).into()];
        for op in ops {
            let error = a.send("k", op).unwrap_err();
            assert_eq!(error.kind, Failure::Later, "{op:?}: {error}");
            assert!(error.to_string().contains(code), "{error}");
        }
        assert_eq!(server.run::<String>("GET k"), "dl1:a:1");
        assert_eq!(server.run::<Vec<String>>("LRANGE dl1:q:k 0 -1"), ["dl1:b:2"]);
        server.run::<()>(&format!("CONFIG SET {well}"));
        assert_eq!(a.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
        assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    }
}
