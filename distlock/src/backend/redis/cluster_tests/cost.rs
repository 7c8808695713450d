//! The cost of a hand-off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{TTL, leave, scripts, set};

use crate::LockManager;
use crate::backend::ReleaseReply;
use crate::backend::redis::scripts::SCRIPTS;
use crate::backend::redis::test_cluster::Cluster;
use crate::backend::redis::test_server::{LONG, TestServer};

/// The number of sections that four managers run in [`contend`].
const SECTIONS: u64 = 2_000;

/// The time that four managers that contend for `key` need for [`SECTIONS`], and the number of scripts for each
/// section.
fn contend(url: &str, key: &str, servers: &[TestServer]) -> (Duration, f64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let begun = Arc::new(AtomicU64::new(0));
    let managers: Vec<_> = (0..4).map(|_| runtime.block_on(LockManager::connect(url)).unwrap()).collect();
    let (before, start) = (scripts(servers, "calls"), Instant::now());
    let tasks: Vec<_> = managers
        .iter()
        .map(|manager| {
            let (manager, key, begun) = (manager.clone(), key.to_owned(), begun.clone());
            runtime.spawn(async move {
                while begun.fetch_add(1, Ordering::SeqCst) < SECTIONS {
                    let guard = manager.lock(&*key).ttl(TTL).wait(LONG).acquire().await.unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    (start.elapsed(), (scripts(servers, "calls") - before) as f64 / SECTIONS as f64)
}

#[test]
fn a_hand_off_costs_two_commands_here_too() {
    let server = TestServer::start(&[]);
    let (alone, commands) = contend(&server.url(), "k", std::slice::from_ref(&server));
    eprintln!(
        "four processes, one key of one server: {SECTIONS} sections in {alone:?}, {commands:.2} commands each"
    );
    let cluster = Cluster::start();
    let (together, commands) = contend(&cluster.url(), &cluster.key_at(1), &cluster.servers);
    eprintln!(
        "four processes, one key of a cluster: {SECTIONS} sections in {together:?}, {commands:.2} commands each"
    );
    // On a busy machine, a waiter asks again now and then before the push arrives. Without pushes, each one asks at
    // least once more.
    assert!(commands < 2.8, "{commands}");
    // If grants had to pass from node to node, each would take up to 40 ms. A slow machine is slow with one server,
    // too.
    let crossing = Duration::from_millis(5 * SECTIONS);
    assert!(together < crossing + alone * 3, "{together:?} in the cluster, {alone:?} on one server");
}

/// The shorter script needs two of the five keys.
#[test]
fn a_release_for_which_nobody_waits_is_the_shorter_script_here_too() {
    let cluster = Cluster::start();
    let (rig, key) = (cluster.rig("a"), cluster.key_at(0));
    rig.send(&key, set(1)).unwrap();
    cluster.servers[0].run::<()>("SCRIPT FLUSH");
    assert_eq!(rig.send(&key, leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    let hashes: Vec<&str> = [&SCRIPTS.leave_alone, &SCRIPTS.leave].map(|lua| &*lua.hash).to_vec();
    let words: Vec<&str> = ["SCRIPT", "EXISTS"].into_iter().chain(hashes).collect();
    assert_eq!(cluster.servers[0].run_words::<Vec<i64>>(&words), [1, 0]);
}
