//! Cluster: a primary is paused, its replica takes over, and the old primary resumes as if nothing had happened.

use distlock_tests::ClusterServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn cluster_primary_stopped() {
    let _turn = turn().await;
    let cluster = ClusterServers::start();
    let mut load = Load::start(&cluster.url(), Keys::with_tag(&cluster.key_at(0)));
    load.fault();
    cluster.servers()[0].stop();
    cluster.wait_until_failed_over();
    cluster.servers()[0].cont();
    load.works();
    cluster.wait_until_demoted();
    load.works();
    let outcome = load.finish(&cluster.servers()[1..]).await;
    row::print(
        "Cluster",
        "primary SIGSTOPped, woken after the fail-over",
        "cluster_primary_stopped",
        &outcome,
    );
    outcome.assert_fenced();
}
