//! Quorum: a minority of the servers is killed and restarts without data.

use distlock_tests::QuorumServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn quorum_one_restarted_empty() {
    restarted(1, "quorum_one_restarted_empty").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_two_restarted_empty() {
    restarted(2, "quorum_two_restarted_empty").await;
}

async fn restarted(count: usize, test: &str) {
    let _turn = turn().await;
    let mut servers = QuorumServers::start();
    let mut load = Load::start(&servers.url(), Keys::of("k"));
    load.fault();
    for server in &mut servers.servers_mut()[..count] {
        server.restart();
        load.works();
    }
    let outcome = load.finish(servers.servers()).await;
    row::print("Quorum of five", &format!("{count} killed −9 and restarted empty"), test, &outcome);
    outcome.assert_exclusive();
}
