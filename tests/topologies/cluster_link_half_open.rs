//! Cluster: the link to one primary loses all bytes, while the cluster itself works.

use distlock_tests::{ClusterServers, Proxy};

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn cluster_link_half_open() {
    let _turn = turn().await;
    let cluster = ClusterServers::start_steady();
    let link = Proxy::to(&cluster.servers()[0].address());
    cluster.announce(0, link.address().port());
    let mut load = Load::start(&cluster.url(), Keys::with_tag(&cluster.key_at(0)));
    assert!(link.accepted() > 0, "nobody uses the link");
    load.fault();
    link.swallow_all();
    load.fails();
    link.pass();
    load.works();
    let outcome = load.finish(cluster.masters()).await;
    let fault = "link to a primary half open, mended when every process had failed";
    row::print("Cluster", fault, "cluster_link_half_open", &outcome);
    outcome.assert_exclusive();
}
