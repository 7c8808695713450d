//! Cluster: a primary is killed, its replica takes over.

use distlock_tests::ClusterServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn cluster_primary_killed() {
    let _turn = turn().await;
    let mut cluster = ClusterServers::start();
    let mut load = Load::start(&cluster.url(), Keys::with_tag(&cluster.key_at(0)));
    load.fault();
    cluster.first_master().kill9();
    cluster.wait_until_failed_over();
    load.works();
    let outcome = load.finish(&cluster.servers()[1..]).await;
    row::print("Cluster", "primary killed −9", "cluster_primary_killed", &outcome);
    outcome.assert_fenced();
}
