//! Quorum: a lock that begins on a bare majority, because two servers are away, and then loses one more.
//!
//! The two are there again a moment before the fault: the lock must stand on them by then.

use std::time::{Duration, Instant};

use distlock_tests::{Proxy, QuorumServers, RedisServer};

use crate::{
    load::{Keys, Load, turn},
    row,
};

const BOUND: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn quorum_bare_majority_one_killed() {
    lost("1 more killed −9", "quorum_bare_majority_one_killed", RedisServer::kill9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_bare_majority_one_restarted_empty() {
    lost("1 more restarted empty", "quorum_bare_majority_one_restarted_empty", RedisServer::restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_bare_majority_one_flushed() {
    let flush = |server: &mut RedisServer| {
        server.raw(&["FLUSHALL"]);
    };
    lost("1 more emptied, not restarted", "quorum_bare_majority_one_flushed", flush).await;
}

async fn lost(fault: &str, test: &str, lose: impl FnOnce(&mut RedisServer)) {
    let _turn = turn().await;
    let mut servers = QuorumServers::start();
    let links = servers.links();
    let keys = Keys::of("k");
    let mut load = Load::start(&QuorumServers::url_of(&links), keys.clone());
    load.fault();
    // Every lock that is taken from now on is on three servers.
    links[..2].iter().for_each(Proxy::refuse);
    load.works();
    links[..2].iter().for_each(Proxy::pass);
    let start = Instant::now();
    while !servers.servers()[..2].iter().any(|server| keys.slow.iter().any(|key| server.exists(key))) {
        assert!(start.elapsed() < BOUND, "what is held is not repaired");
        std::thread::sleep(Duration::from_millis(2));
    }
    lose(&mut servers.servers_mut()[4]);
    load.works();
    let outcome = load.finish(&servers.servers()[..4]).await;
    row::print("Quorum of five", &format!("bare majority, then {fault}"), test, &outcome);
    outcome.assert_exclusive();
}
