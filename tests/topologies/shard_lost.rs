//! Servers that share the keys: one of them is lost, and the locks on the others still work.

use distlock::LockManager;
use distlock_tests::ShardServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

/// The server that is lost.
const LOST: usize = 0;

#[tokio::test(flavor = "multi_thread")]
async fn shard_lost_killed() {
    lost("another server killed −9", "shard_lost_killed", |servers| servers.servers_mut()[LOST].kill9())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shard_lost_stopped() {
    lost("another server SIGSTOPped", "shard_lost_stopped", |servers| servers.servers()[LOST].stop()).await;
}

async fn lost(fault: &str, test: &str, lose: impl FnOnce(&mut ShardServers)) {
    let _turn = turn().await;
    let mut servers = ShardServers::start();
    let key = key_elsewhere(&servers).await;
    let mut load = Load::start(&servers.url(), Keys::with_tag(&key));
    load.fault();
    lose(&mut servers);
    load.works();
    let outcome = load.finish(&servers.servers()[LOST + 1..]).await;
    row::print("Three servers that share the keys", fault, test, &outcome);
    outcome.assert_exclusive();
    assert!(outcome.errors.is_empty(), "{outcome:#?}");
}

/// A key that is not on the server that is lost.
async fn key_elsewhere(servers: &ShardServers) -> String {
    let manager = LockManager::connect(servers.url()).await.unwrap();
    for number in 0.. {
        let key = format!("k{number}");
        let guard = manager.lock(&*key).acquire().await.unwrap();
        let home = servers.home(&key);
        guard.release().await.unwrap();
        if home != LOST {
            return key;
        }
    }
    unreachable!("an endless supply of keys")
}
