//! PostgreSQL: links are cut, half open or slow.

use std::time::Duration;

use distlock_tests::{Direction, PostgresServer, Proxy};

use crate::{
    load::{Keys, Load, turn},
    row,
};

/// A server, and a link to it, which all processes share.
fn linked() -> (PostgresServer, Proxy, String) {
    let server = PostgresServer::start();
    let link = Proxy::to(&server.address());
    let url = server.url_through(&link);
    (server, link, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_links_cut() {
    let _turn = turn().await;
    let (server, link, url) = linked();
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    link.cut();
    load.works();
    link.refuse();
    load.fails();
    link.pass();
    load.works();
    let fault = "links cut, then refused, mended when every process had failed";
    row::of_postgres(load, &server, fault, "postgres_links_cut").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_links_half_open() {
    let _turn = turn().await;
    let (server, link, url) = linked();
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    link.swallow_all();
    load.fails();
    link.pass();
    load.works();
    link.swallow(Direction::Replies);
    load.fails();
    link.pass();
    load.works();
    let fault = "links half open, then replies lost, mended when every process had failed";
    row::of_postgres(load, &server, fault, "postgres_links_half_open").await;
}

/// Commands arrive when no caller waits for the replies any longer. The server refuses them by its clock.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_commands_held() {
    let _turn = turn().await;
    let (server, link, url) = linked();
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    link.hold(Direction::Requests);
    load.fails();
    link.pass();
    load.works();
    let fault = "commands arrive after every process had failed";
    row::of_postgres(load, &server, fault, "postgres_commands_held").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_answers_slow() {
    let _turn = turn().await;
    let (server, link, url) = linked();
    let mut load = Load::start(&url, Keys::of("k"));
    load.fault();
    link.delay(Direction::Replies, Duration::from_millis(20));
    load.works();
    link.pass();
    load.works();
    row::of_postgres(load, &server, "answers 20 ms late, for a while", "postgres_answers_slow").await;
}
