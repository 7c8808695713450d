//! Sentinel: the master dies with writes that it has confirmed and the replica has never received.

use distlock_tests::SentinelGroup;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_writes_lost() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start();
    let mut load = Load::start(&group.url(), Keys::of("k"));
    group.cut_replication();
    load.works();
    load.fault();
    group.first_master().kill9();
    group.wait_until_failed_over();
    load.works();
    let outcome = load.finish(&group.servers()[1..]).await;
    row::print("Sentinel", "master killed −9, last writes not replicated", "sentinel_writes_lost", &outcome);
    outcome.assert_fenced();
}
