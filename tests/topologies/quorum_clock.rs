//! Quorum: the wall clock of one server, or of a minority, jumps.

use std::time::Duration;

use distlock_tests::{Proxy, QuorumServers, RedisServer};

use crate::{
    load::{Keys, Load, turn},
    row,
};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn quorum_two_clocks_forward() {
    let step = |server: &RedisServer| server.step_clock_forward(HOUR);
    jumps("wall clocks of 2 jump an hour ahead", "quorum_two_clocks_forward", step).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_two_clocks_back() {
    let step = |server: &RedisServer| server.step_clock_back(HOUR);
    jumps("wall clocks of 2 jump an hour back", "quorum_two_clocks_back", step).await;
}

/// A process that starts after a clock was set cannot notice that.
#[tokio::test(flavor = "multi_thread")]
async fn quorum_one_clock_forward_and_a_newcomer() {
    let _turn = turn().await;
    let servers = QuorumServers::with_stepped_clocks();
    let links = servers.links();
    let mut load = Load::start(&QuorumServers::url_of(&links), Keys::of("k"));
    load.fault();
    // The held locks are on a bare majority, one of whose servers ends its leases.
    links[..2].iter().for_each(Proxy::refuse);
    load.works();
    servers.servers()[4].step_clock_forward(HOUR);
    load.another(&servers.url());
    links[..2].iter().for_each(Proxy::pass);
    load.works();
    let outcome = load.finish(servers.servers()).await;
    let fault = "bare majority, wall clock of 1 jumps an hour ahead, and another process comes";
    row::print("Quorum of five", fault, "quorum_one_clock_forward_and_a_newcomer", &outcome);
    outcome.assert_exclusive();
}

async fn jumps(fault: &str, test: &str, step: impl Fn(&RedisServer)) {
    let _turn = turn().await;
    let servers = QuorumServers::with_stepped_clocks();
    let mut load = Load::start(&servers.url(), Keys::of("k"));
    load.fault();
    servers.servers()[..2].iter().for_each(step);
    load.works();
    let outcome = load.finish(servers.servers()).await;
    row::print("Quorum of five", fault, test, &outcome);
    outcome.assert_exclusive();
}
