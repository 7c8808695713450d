//! One server: its wall clock jumps ahead.

use std::time::Duration;

use distlock_tests::RedisServer;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn redis_clock_forward() {
    let _turn = turn().await;
    let server = RedisServer::options().stepped_clock().start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    server.step_clock_forward(Duration::from_secs(3600));
    load.works();
    let outcome = load.finish(std::slice::from_ref(&server)).await;
    row::print("one server", "wall clock jumps an hour ahead", "redis_clock_forward", &outcome);
    outcome.assert_fenced();
}
