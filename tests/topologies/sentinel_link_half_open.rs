//! Sentinel: the link to the master loses all bytes. The replica takes over, and later the link works again.

use distlock_tests::SentinelGroup;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_link_half_open() {
    let _turn = turn().await;
    let (group, link) = SentinelGroup::start_behind_a_link();
    let mut load = Load::start(&group.url(), Keys::of("k"));
    load.fault();
    link.swallow_all();
    group.wait_until_failed_over();
    load.works();
    link.pass();
    group.wait_until_demoted();
    load.works();
    let outcome = load.finish(&group.servers()[1..]).await;
    let fault = "link to the master half open, mended after the fail-over";
    row::print("Sentinel", fault, "sentinel_link_half_open", &outcome);
    outcome.assert_fenced();
}
