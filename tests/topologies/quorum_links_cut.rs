//! Quorum: the links to a minority, or to a majority, of the servers are cut, and then work again.

use distlock_tests::{Proxy, QuorumServers};

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn quorum_two_links_cut() {
    let _turn = turn().await;
    let servers = QuorumServers::start();
    let links = servers.links();
    let mut load = Load::start(&QuorumServers::url_of(&links), Keys::of("k"));
    load.fault();
    links[..2].iter().for_each(Proxy::refuse);
    load.works();
    links[..2].iter().for_each(Proxy::pass);
    load.works();
    let outcome = load.finish(servers.servers()).await;
    row::print("Quorum of five", "links to 2 cut, mended later", "quorum_two_links_cut", &outcome);
    outcome.assert_exclusive();
}

/// Without a majority, no process works. The time to recover includes the time of the cut.
#[tokio::test(flavor = "multi_thread")]
async fn quorum_three_links_cut() {
    let _turn = turn().await;
    let servers = QuorumServers::start();
    let links = servers.links();
    let mut load = Load::start(&QuorumServers::url_of(&links), Keys::of("k"));
    load.fault();
    links[..3].iter().for_each(Proxy::refuse);
    load.fails();
    links[..3].iter().for_each(Proxy::pass);
    load.works();
    let outcome = load.finish(servers.servers()).await;
    let fault = "links to 3 cut, mended when every process had failed";
    row::print("Quorum of five", fault, "quorum_three_links_cut", &outcome);
    outcome.assert_exclusive();
}
