//! Sentinel: the master is killed, the replica takes over.

use distlock_tests::SentinelGroup;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_master_killed() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start();
    let mut load = Load::start(&group.url(), Keys::of("k"));
    load.fault();
    group.first_master().kill9();
    group.wait_until_failed_over();
    load.works();
    let outcome = load.finish(&group.servers()[1..]).await;
    row::print("Sentinel", "master killed −9", "sentinel_master_killed", &outcome);
    outcome.assert_fenced();
}
