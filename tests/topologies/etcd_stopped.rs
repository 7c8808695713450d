//! etcd: the only member, the leader, a follower or the majority is stopped (SIGSTOP), and goes on.

use distlock_tests::{EtcdServers, eventually};

use crate::{
    etcd_killed::url,
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn etcd_server_stopped() {
    let _turn = turn().await;
    let servers = EtcdServers::one();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    servers.stop(0);
    load.fails();
    servers.cont(0);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("distlock/");
    row::print(
        "etcd, one member",
        "SIGSTOP, SIGCONT when every process had failed",
        "etcd_server_stopped",
        &outcome,
    );
    outcome.assert_exclusive();
}

/// It goes on when another one leads, before any session that it knows could have ended.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_leader_stopped() {
    let _turn = turn().await;
    let servers = EtcdServers::three();
    // Members before 3.4.31 end sessions that seem to be over when they go on: those are longer than the stop.
    let url = format!("{}?session_timeout=120s&response_timeout=1s", servers.url());
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    let leader = servers.leader();
    servers.stop(leader);
    eventually("another one leads", async || (0..3).any(|it| it != leader && servers.leads(it))).await;
    load.works();
    servers.cont(leader);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("distlock/");
    row::print(
        "etcd, three members",
        "SIGSTOP of the leader, SIGCONT later",
        "etcd_leader_stopped",
        &outcome,
    );
    outcome.assert_exclusive();
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_follower_stopped() {
    let _turn = turn().await;
    let servers = EtcdServers::three();
    let mut load = Load::start(&url(&servers), Keys::of("k"));
    load.fault();
    let follower = (servers.leader() + 1) % 3;
    servers.stop(follower);
    load.works();
    servers.cont(follower);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("distlock/");
    row::print(
        "etcd, three members",
        "SIGSTOP of a follower, SIGCONT later",
        "etcd_follower_stopped",
        &outcome,
    );
    outcome.assert_exclusive();
}

/// What was sent to the leader that is left stays in its log, and must not be carried out when the others are back.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_majority_stopped() {
    let _turn = turn().await;
    let servers = EtcdServers::three();
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
    servers.has_no_locks("distlock/");
    let fault = "SIGSTOP of both followers, SIGCONT when every process had failed";
    row::print("etcd, three members", fault, "etcd_majority_stopped", &outcome);
    outcome.assert_exclusive();
}
