//! ZooKeeper: a member is cut off from the others, and answers its clients as before.

use distlock_tests::ZooKeeperServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_member_cut_off() {
    let _turn = turn().await;
    // It notices after half a minute.
    let servers = ZooKeeperServers::three_with_links(&["syncLimit=60"]);
    let url = format!("{}?session_timeout=6s&response_timeout=1s", servers.url());
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    servers.cut_off();
    load.works();
    servers.reunite();
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    let fault = "a member cut off from the others and not from its clients, mended later";
    row::print("ZooKeeper, three members", fault, "zookeeper_member_cut_off", &outcome);
    outcome.assert_exclusive();
}
