//! One server: its wall clock jumps back.

use std::time::Duration;

use distlock_tests::RedisServer;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn redis_clock_back() {
    let _turn = turn().await;
    let server = RedisServer::options().stepped_clock().start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    server.step_clock_back(Duration::from_secs(3600));
    load.works();
    let outcome = load.finish(std::slice::from_ref(&server)).await;
    row::print("one server", "wall clock jumps an hour back", "redis_clock_back", &outcome);
    outcome.assert_exclusive();
}
