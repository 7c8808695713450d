//! Sentinel with `replicas(1)`: the master dies with writes that the replica has never received, and no lock is among
//! them.

use distlock_tests::SentinelGroup;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_replicas_confirm() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start();
    let mut load = Load::start(&format!("{}?replicas=1", group.url()), Keys::of("k"));
    group.cut_replication();
    load.fault();
    // No process gets a lock that the replica does not have. Earlier holders have released theirs by then.
    load.gets_nothing();
    group.first_master().kill9();
    group.wait_until_failed_over();
    group.first_master().restart();
    group.wait_until_demoted();
    load.works();
    let outcome = load.finish(&group.servers()[1..]).await;
    let fault = "`replicas(1)`: replication cut, master killed −9 when every process had failed, restarted as the replica";
    row::print("Sentinel", fault, "sentinel_replicas_confirm", &outcome);
    outcome.assert_exclusive();
}
