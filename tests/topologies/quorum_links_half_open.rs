//! Quorum: the links to a minority of the servers lose all bytes without an error.

use distlock_tests::{Direction, Proxy, QuorumServers};

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn quorum_two_links_half_open() {
    half_open("links to 2 half open, mended later", "quorum_two_links_half_open", Proxy::swallow_all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_replies_of_two_lost() {
    let swallow = |link: &Proxy| link.swallow(Direction::Replies);
    half_open("replies of 2 swallowed, mended later", "quorum_replies_of_two_lost", swallow).await;
}

async fn half_open(fault: &str, test: &str, swallow: impl Fn(&Proxy)) {
    let _turn = turn().await;
    let servers = QuorumServers::start();
    let links = servers.links();
    let mut load = Load::start(&QuorumServers::url_of(&links), Keys::of("k"));
    load.fault();
    links[..2].iter().for_each(swallow);
    load.works();
    links[..2].iter().for_each(Proxy::pass);
    load.works();
    let outcome = load.finish(servers.servers()).await;
    row::print("Quorum of five", fault, test, &outcome);
    outcome.assert_exclusive();
}
