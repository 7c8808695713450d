//! Sentinel: the master is paused, the replica takes over, and the old master resumes as if nothing had happened.

use distlock_tests::SentinelGroup;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_master_stopped() {
    let _turn = turn().await;
    let group = SentinelGroup::start();
    let mut load = Load::start(&group.url(), Keys::of("k"));
    load.fault();
    group.servers()[0].stop();
    group.wait_until_failed_over();
    group.servers()[0].cont();
    load.works();
    group.wait_until_demoted();
    load.works();
    let outcome = load.finish(&group.servers()[1..]).await;
    row::print(
        "Sentinel",
        "master SIGSTOPped, woken after the fail-over",
        "sentinel_master_stopped",
        &outcome,
    );
    outcome.assert_fenced();
}
