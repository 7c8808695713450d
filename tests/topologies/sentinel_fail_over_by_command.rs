//! Sentinel: `SENTINEL FAILOVER` while the master works. The old master still replies for a while.

use distlock_tests::SentinelGroup;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_fail_over_by_command() {
    let _turn = turn().await;
    let group = SentinelGroup::start();
    let mut load = Load::start(&group.url(), Keys::of("k"));
    load.fault();
    group.fail_over();
    group.wait_until_failed_over();
    load.works();
    group.wait_until_demoted();
    load.works();
    let outcome = load.finish(&group.servers()[1..]).await;
    row::print("Sentinel", "`SENTINEL FAILOVER`", "sentinel_fail_over_by_command", &outcome);
    outcome.assert_fenced();
}
