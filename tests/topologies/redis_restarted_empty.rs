//! One server: killed and restarted without its data.

use distlock_tests::RedisServer;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn redis_restarted_empty() {
    let _turn = turn().await;
    let mut server = RedisServer::start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    server.restart();
    load.works();
    let outcome = load.finish(std::slice::from_ref(&server)).await;
    row::print("one server", "killed −9 and restarted empty", "redis_restarted_empty", &outcome);
    outcome.assert_fenced();
}
