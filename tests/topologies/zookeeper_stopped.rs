//! ZooKeeper: the only member, the leader, a follower or the majority is stopped (SIGSTOP), and goes on.

use distlock_tests::{ZooKeeperServers, eventually};

use crate::{
    load::{Keys, Load, turn},
    row,
    zookeeper_killed::url,
};

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_server_stopped() {
    let _turn = turn().await;
    let servers = ZooKeeperServers::one();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    servers.stop(0);
    load.fails();
    servers.cont(0);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    row::print(
        "ZooKeeper, one server",
        "SIGSTOP, SIGCONT when every process had failed",
        "zookeeper_server_stopped",
        &outcome,
    );
    outcome.assert_exclusive();
}

/// Sessions that it has not heard of for long are ended by the next one only, which has.
#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_leader_stopped() {
    let _turn = turn().await;
    let servers = ZooKeeperServers::three();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    let leader = servers.leader();
    servers.stop(leader);
    eventually("another one leads", async || (0..3).any(|it| it != leader && servers.leads(it))).await;
    load.works();
    servers.cont(leader);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    row::print(
        "ZooKeeper, three members",
        "SIGSTOP of the leader, SIGCONT later",
        "zookeeper_leader_stopped",
        &outcome,
    );
    outcome.assert_exclusive();
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_follower_stopped() {
    let _turn = turn().await;
    let servers = ZooKeeperServers::three();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    let follower = (servers.leader() + 1) % 3;
    servers.stop(follower);
    load.works();
    servers.cont(follower);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    row::print(
        "ZooKeeper, three members",
        "SIGSTOP of a follower, SIGCONT later",
        "zookeeper_follower_stopped",
        &outcome,
    );
    outcome.assert_exclusive();
}

/// What was sent to the leader that is left may be carried out when the others are back, in sessions that are over.
#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_majority_stopped() {
    let _turn = turn().await;
    let servers = ZooKeeperServers::three();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    let leader = servers.leader();
    for follower in (0..3).filter(|it| *it != leader) {
        servers.stop(follower);
    }
    load.fails();
    for follower in (0..3).filter(|it| *it != leader) {
        servers.cont(follower);
    }
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    let fault = "SIGSTOP of both followers, SIGCONT when every process had failed";
    row::print("ZooKeeper, three members", fault, "zookeeper_majority_stopped", &outcome);
    outcome.assert_exclusive();
}
