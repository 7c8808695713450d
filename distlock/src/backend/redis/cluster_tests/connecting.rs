//! The requirements for a connection.

use super::{enter, granted, leave, persist, set};

use crate::backend::redis::slots::{slot_of, tag_of};
use crate::backend::redis::test_cluster::Cluster;
use crate::backend::redis::test_server::{Rig, TestServer};
use crate::backend::redis::{ClusterBackend, RedisConfig};
use crate::backend::{AcquireMode, AcquireReply, EarlierCommands, Failure};

#[test]
fn a_server_by_itself_is_refused_with_the_scheme_to_use() {
    let server = TestServer::start(&[]);
    let url = format!("redis+cluster://127.0.0.1:{}", server.port);
    let rig = Rig::run(ClusterBackend::new(RedisConfig::new(&url, "a").unwrap()).unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    assert!(cause.to_string().contains("`redis://`"), "{cause}");
}

#[test]
fn lazy_connects_with_the_first_operation() {
    let cluster = Cluster::start();
    let config = RedisConfig {
        connect: crate::backend::ConnectOn::FirstUse,
        ..RedisConfig::new(&cluster.url(), "a").unwrap()
    };
    let rig = Rig::run(ClusterBackend::new(config).unwrap());
    // Another process that started later is connected, and this one has not begun.
    cluster.rig("b");
    assert!(rig.seen().is_empty());
    assert_eq!(rig.send("k", set(1)).unwrap_err().kind, Failure::NotSent);
    rig.wait_until_up();
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn a_few_privileges_more_than_on_one_server_are_enough() {
    let cluster = Cluster::start();
    for server in &cluster.servers {
        let rules = "ACL SETUSER least on >pw ~* &* +evalsha +eval +set +get +del +pexpire +pttl +publish +subscribe \
                     +unsubscribe +ping +time +hset +hget +hdel +rpush +lpush +lpop +lrem +lindex \
                     +cluster|slots +cluster|info +asking";
        server.run_words::<()>(&rules.split_whitespace().collect::<Vec<_>>());
    }
    let url = cluster.url().replace("://", "://least:pw@");
    let connect = |client| {
        let rig = Rig::run(ClusterBackend::new(RedisConfig::new(&url, client).unwrap()).unwrap());
        assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
        rig
    };
    let (a, b) = (connect("a"), connect("b"));
    let key = cluster.key_at(0);
    a.send(&key, enter(1, AcquireMode::Try, 1)).unwrap();
    b.send(&key, enter(2, AcquireMode::Wait, 1)).unwrap();
    let slot = slot_of("", &key);
    cluster.begin_to_move(slot, 0, 1);
    let free = format!("free{{{}}}", tag_of(slot));
    assert!(matches!(a.send(&free, set(3)), Ok(AcquireReply::Acquired { .. })));
    cluster.move_keys(slot, 0, 1);
    cluster.end_to_move(slot, 0, 1);
    persist(&a, &free, &leave(3));
    persist(&a, &key, &leave(1));
    granted(&b, 2);
    b.send(&key, leave(2)).unwrap();
}

#[test]
fn a_cluster_whose_nodes_have_no_host_names_says_what_to_set() {
    let server = TestServer::start(&["--cluster-enabled", "yes"]);
    server.run::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
    server.run::<()>("CONFIG SET cluster-preferred-endpoint-type hostname");
    let url = format!("redis+cluster://127.0.0.1:{}", server.port);
    let rig = Rig::run(ClusterBackend::new(RedisConfig::new(&url, "a").unwrap()).unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    assert!(cause.to_string().contains("`cluster-announce-hostname`"), "{cause}");
    server.run::<()>("CONFIG SET cluster-announce-hostname localhost");
    rig.wait_until_up();
}
