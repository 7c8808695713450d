//! Quorum: a minority of the servers is paused for a while, and every connection stays open.

use distlock_tests::QuorumServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn quorum_one_stopped() {
    stopped(1, "quorum_one_stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_two_stopped() {
    stopped(2, "quorum_two_stopped").await;
}

async fn stopped(count: usize, test: &str) {
    let _turn = turn().await;
    let servers = QuorumServers::start();
    let mut load = Load::start(&servers.url(), Keys::of("k"));
    load.fault();
    for server in &servers.servers()[..count] {
        server.stop();
    }
    load.works();
    for server in &servers.servers()[..count] {
        server.cont();
    }
    load.works();
    let outcome = load.finish(servers.servers()).await;
    row::print("Quorum of five", &format!("{count} SIGSTOPped, woken later"), test, &outcome);
    outcome.assert_exclusive();
}
