//! ZooKeeper: links are cut, half open or slow.

use std::time::Duration;

use distlock_tests::{Direction, Proxy, ZooKeeperServers};

use crate::{
    load::{Keys, Load, turn},
    row,
};

/// Members, and a link to each.
fn linked(servers: ZooKeeperServers) -> (ZooKeeperServers, Vec<Proxy>, String) {
    let links: Vec<Proxy> = (0..servers.count()).map(|it| Proxy::to(&servers.address(it))).collect();
    let addresses: Vec<String> = links.iter().map(|link| link.address().to_string()).collect();
    let url = format!("zookeeper://{}?session_timeout=3s&response_timeout=1s", addresses.join(","));
    (servers, links, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_links_cut() {
    let _turn = turn().await;
    let (servers, links, url) = linked(ZooKeeperServers::three());
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    links.iter().for_each(Proxy::cut);
    load.works();
    links[0].refuse();
    links[1].refuse();
    load.works();
    links.iter().for_each(Proxy::pass);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    row::print(
        "ZooKeeper, three members",
        "all links cut, then two refused, mended later",
        "zookeeper_links_cut",
        &outcome,
    );
    outcome.assert_exclusive();
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_links_half_open() {
    let _turn = turn().await;
    let (servers, links, url) = linked(ZooKeeperServers::three());
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    links[0].swallow_all();
    links[1].swallow(Direction::Replies);
    load.works();
    links.iter().for_each(Proxy::pass);
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    let fault = "links to two half open, mended later";
    row::print("ZooKeeper, three members", fault, "zookeeper_links_half_open", &outcome);
    outcome.assert_exclusive();
}

/// Requests arrive when nobody waits for their answers any more.
#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_requests_held() {
    let _turn = turn().await;
    let (servers, links, url) = linked(ZooKeeperServers::one());
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    links[0].hold(Direction::Requests);
    load.fails();
    links[0].pass();
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    let fault = "requests arrive after every process had failed";
    row::print("ZooKeeper, one server", fault, "zookeeper_requests_held", &outcome);
    outcome.assert_exclusive();
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_answers_slow() {
    let _turn = turn().await;
    let (servers, links, url) = linked(ZooKeeperServers::one());
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    links[0].delay(Direction::Replies, Duration::from_millis(20));
    load.works();
    links[0].pass();
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("/distlock");
    row::print(
        "ZooKeeper, one server",
        "answers 20 ms late, for a while",
        "zookeeper_answers_slow",
        &outcome,
    );
    outcome.assert_exclusive();
}
