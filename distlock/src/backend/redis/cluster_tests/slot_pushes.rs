//! Pushes that only the subscribers on their node receive.

use super::{enter, granted, leave};

use crate::backend::AcquireMode;
use crate::backend::redis::ClusterBackend;
use crate::backend::redis::RedisConfig;
use crate::backend::redis::slots::slot_of;
use crate::backend::redis::test_cluster::Cluster;
use crate::backend::redis::test_server::{LONG, Rig, TestServer, wait_until};

/// How many pushes the nodes have sent to each other: to all nodes, and within a shard of the cluster.
fn sent(servers: &[TestServer]) -> (u64, u64) {
    let count = |name: &str| {
        let of_one = |server: &TestServer| {
            let info: String = server.run("CLUSTER INFO");
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
        };
        servers.iter().map(of_one).sum()
    };
    (count("cluster_stats_messages_publish_sent"), count("cluster_stats_messages_publishshard_sent"))
}

/// Whether a client is subscribed on `server` in the slot of `key`.
fn listens(server: &TestServer, key: &str) -> bool {
    let slot = slot_of("", key);
    let channels: Vec<String> = server.run("PUBSUB SHARDCHANNELS");
    channels.iter().any(|channel| slot_of("", channel) == slot)
}

/// Hands `key` from `a` to `b`, which waits by the token `token`.
fn hand_over(a: &Rig<ClusterBackend>, b: &Rig<ClusterBackend>, key: &str, token: u64) {
    a.send(key, enter(token, AcquireMode::Try, 1)).unwrap();
    b.send(key, enter(token, AcquireMode::Wait, 1)).unwrap();
    a.send(key, leave(token)).unwrap();
    granted(b, token);
    b.send(key, leave(token)).unwrap();
}

#[test]
fn a_push_stays_at_its_node_once_the_waiter_listens_there() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let key = cluster.key_at(1);
    // The first push may be too early for the subscription. It arrives nevertheless.
    hand_over(&a, &b, &key, 1);
    wait_until("b listens in the slot", LONG, || listens(&cluster.servers[1], &key));
    let before = sent(&cluster.servers);
    for token in 2..12 {
        hand_over(&a, &b, &key, token);
    }
    assert_eq!(sent(&cluster.servers), before, "the master has no replica");
    // The slot moves to another master. At first b has no subscription for the slot there, and then it subscribes.
    let slot = slot_of("", &key);
    cluster.begin_to_move(slot, 1, 2);
    cluster.move_keys(slot, 1, 2);
    cluster.end_to_move(slot, 1, 2);
    wait_until("nobody listens at the old master", LONG, || !listens(&cluster.servers[1], &key));
    hand_over(&a, &b, &key, 12);
    wait_until("b listens at the new master", LONG, || {
        if !listens(&cluster.servers[2], &key) {
            hand_over(&a, &b, &key, 13);
        }
        listens(&cluster.servers[2], &key)
    });
    let before = sent(&cluster.servers);
    hand_over(&a, &b, &key, 14);
    assert_eq!(sent(&cluster.servers), before);
}

#[test]
fn clients_that_do_not_listen_in_slots_get_their_pushes_from_all_nodes() {
    let cluster = Cluster::start();
    // Like a client of an earlier version.
    for server in &cluster.servers {
        let rules = "ACL SETUSER earlier on >pw ~* &* +@all -spublish -ssubscribe";
        server.run_words::<()>(&rules.split_whitespace().collect::<Vec<_>>());
    }
    let url = cluster.url().replace("://", "://earlier:pw@");
    let earlier = Rig::run(ClusterBackend::new(RedisConfig::new(&url, "earlier").unwrap()).unwrap());
    earlier.wait_until_pushed();
    let (new, key) = (cluster.rig("new"), cluster.key_at(1));
    for token in 1..4 {
        hand_over(&new, &earlier, &key, token);
        hand_over(&earlier, &new, &key, token + 10);
    }
    wait_until("the new one listens in the slot", LONG, || listens(&cluster.servers[1], &key));
    let before = sent(&cluster.servers);
    hand_over(&new, &earlier, &key, 21);
    assert_eq!(sent(&cluster.servers).0, before.0 + 3, "to the three other nodes");
    hand_over(&earlier, &new, &key, 22);
    assert_eq!(sent(&cluster.servers).0, before.0 + 6, "it does not know the command");
}

#[test]
fn a_push_connection_that_was_lost_is_subscribed_in_its_slots_again() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let key = cluster.key_at(1);
    hand_over(&a, &b, &key, 1);
    wait_until("b listens in the slot", LONG, || listens(&cluster.servers[1], &key));
    b.send(&key, enter(2, AcquireMode::Try, 1)).unwrap();
    cluster.servers[1].run::<()>("CLIENT KILL TYPE pubsub");
    // A push may have been lost with the connection, so the engine must ask.
    b.wait_until_up();
    wait_until("b listens in the slot again", LONG, || listens(&cluster.servers[1], &key));
    b.send(&key, leave(2)).unwrap();
    let before = sent(&cluster.servers);
    hand_over(&a, &b, &key, 3);
    assert_eq!(sent(&cluster.servers), before);
}
