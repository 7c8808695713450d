//! ZooKeeper: the only member, the leader or a follower is killed, and comes back with its data.

use distlock_tests::ZooKeeperServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

/// What the processes of a load are given, and what is left when they have gone.
pub(crate) fn url(servers: &ZooKeeperServers) -> String {
    format!("{}?session_timeout=3s&response_timeout=1s", servers.url())
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_server_killed() {
    let _turn = turn().await;
    let mut servers = ZooKeeperServers::one();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    servers.kill9(0);
    load.fails();
    servers.restart(0);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    row::print(
        "ZooKeeper, one server",
        "kill -9, restarted when every process had failed",
        "zookeeper_server_killed",
        &outcome,
    );
    outcome.assert_exclusive();
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_leader_killed() {
    let _turn = turn().await;
    let mut servers = ZooKeeperServers::three();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    let leader = servers.leader();
    servers.kill9(leader);
    load.works();
    servers.restart(leader);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    row::print(
        "ZooKeeper, three members",
        "kill -9 of the leader, restarted later",
        "zookeeper_leader_killed",
        &outcome,
    );
    outcome.assert_exclusive();
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_follower_killed() {
    let _turn = turn().await;
    let mut servers = ZooKeeperServers::three();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    let follower = (servers.leader() + 1) % 3;
    servers.kill9(follower);
    load.works();
    servers.restart(follower);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    row::print(
        "ZooKeeper, three members",
        "kill -9 of a follower, restarted later",
        "zookeeper_follower_killed",
        &outcome,
    );
    outcome.assert_exclusive();
}
