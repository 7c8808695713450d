//! Quorum: a minority of the servers is killed.

use distlock_tests::QuorumServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn quorum_one_killed() {
    killed(1, "quorum_one_killed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_two_killed() {
    killed(2, "quorum_two_killed").await;
}

async fn killed(count: usize, test: &str) {
    let _turn = turn().await;
    let mut servers = QuorumServers::start();
    let mut load = Load::start(&servers.url(), Keys::of("k"));
    load.fault();
    for server in &mut servers.servers_mut()[..count] {
        server.kill9();
    }
    load.works();
    let outcome = load.finish(&servers.servers()[count..]).await;
    row::print("Quorum of five", &format!("{count} killed −9"), test, &outcome);
    outcome.assert_exclusive();
}
