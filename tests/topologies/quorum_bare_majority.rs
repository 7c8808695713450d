//! Quorum: a lock begins on a bare majority, because two servers are missing, and then one more server fails.
//!
//! The two servers are back before the fault, and every lock must then be on a majority without the third server.
//! `docs/faults.md` requires this if a server loses its data without a restart.

use distlock_tests::{Proxy, QuorumServers, RedisServer};

use crate::{
    load::{Keys, Load, turn},
    row,
};

/// The server that fails.
const THIRD: usize = 4;

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
    // Every lock that is acquired from now on is on three servers.
    links[..2].iter().for_each(Proxy::refuse);
    load.works();
    links[..2].iter().for_each(Proxy::pass);
    // Locks pass between holders all the time, so no process may request one between the check and the fault.
    load.while_nobody_works(
        &mut servers,
        |servers| all_are_repaired(servers.servers(), &keys),
        |servers| lose(&mut servers.servers_mut()[THIRD]),
    );
    load.works();
    let outcome = load.finish(&servers.servers()[..THIRD]).await;
    row::print("Quorum of five", &format!("bare majority, then {fault}"), test, &outcome);
    outcome.assert_exclusive();
}

/// Whether a majority of the five servers, without the third one, knows all that the third one knows: the holder of
/// each key, and the last fencing token. The simulation of the quorum checks the same before a server loses its data.
fn all_are_repaired(servers: &[RedisServer], keys: &Keys) -> bool {
    let (third, others) = (&servers[THIRD], &servers[..THIRD]);
    let known = |key: &str, suffices: fn(&str, &str) -> bool| {
        third.get(key).is_none_or(|value| {
            let knows = |other: &&RedisServer| other.get(key).is_some_and(|found| suffices(&found, &value));
            others.iter().filter(knows).count() > servers.len() / 2
        })
    };
    keys.all().all(|key| known(key, |found, value| found == value))
        && known("dl1:f", |found, value| found.parse::<u64>().ok() >= value.parse::<u64>().ok())
}
