//! One server, sentinels, a cluster, a quorum: everybody is asked, and everybody answers once.

use distlock::LockManager;
use distlock_tests::{ClusterServers, QuorumServers, RedisServer, SentinelGroup, eventually, until_waiting};

use super::{LONG, all, client, parties};

/// Three clients: one holds, one waits, one looks.
async fn everybody_is_seen(url: &str) {
    let (one, two, eye) = (client(url, "one").await, client(url, "two").await, client(url, "eye").await);
    let held = one.lock("order:1").label("checkout").acquire().await.unwrap();
    let also = two.lock("order:2").acquire().await.unwrap();
    let other = two.lock("user:1").acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("order:1").label("refund").wait(LONG).acquire());
    until_waiting(&one, "order:1", 1).await;

    // A push connection that was made just now may have missed a question.
    eventually("everybody answers", async || all(eye.list("*")).await.unwrap().1.is_empty()).await;
    let (entries, unanswered) = all(eye.list("order:*")).await.unwrap();
    assert!(unanswered.is_empty(), "{unanswered:?}");
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["order:1", "order:2"], "once each, and in order");
    assert_eq!(parties(&entries[0]), (vec!["one"], vec!["two"]));
    assert_eq!(parties(&entries[1]), (vec!["two"], vec![]));
    let holder = &entries[0].holders[0];
    assert_eq!(holder.label.as_deref(), Some("checkout"));
    assert_eq!(holder.client.as_ref().unwrap().pid, Some(std::process::id()));
    assert!(holder.since.is_some() && holder.remaining.is_some() && holder.users == Some(1), "{holder:?}");

    let info = eye.inspect("order:1").await.unwrap().unwrap();
    assert_eq!(info.holders[0].token, holder.token);
    assert_eq!(info.holders[0].label.as_deref(), Some("checkout"));
    assert_eq!(info.waiting.len(), 1);
    let waiter = &info.waiting[0];
    assert_eq!((waiter.label.as_deref(), waiter.requests), (Some("refund"), Some(1)));
    let process = waiter.client.as_ref().unwrap();
    assert!(process.host.is_some() && process.program.is_some() && process.version.is_some(), "{process:?}");
    assert!(info.unanswered.is_empty(), "{info:?}");

    for guard in [held, also, other] {
        guard.release().await.unwrap();
    }
    waits.await.unwrap().unwrap().release().await.unwrap();
    eventually("nothing is listed", async || all(eye.list("*")).await.unwrap().0.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_one_server() {
    everybody_is_seen(&RedisServer::start().url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_sentinels() {
    let group = SentinelGroup::start();
    everybody_is_seen(&group.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster() {
    let cluster = ClusterServers::start();
    everybody_is_seen(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_quorum_also_without_one_server() {
    let mut quorum = QuorumServers::start();
    everybody_is_seen(&quorum.url()).await;
    quorum.servers_mut()[0].kill9();
    everybody_is_seen(&quorum.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_limited_locks_are_seen_with_all_their_holders() {
    let server = RedisServer::start();
    let (one, two) = (client(&server.url(), "one").await, client(&server.url(), "two").await);
    let readers = [
        one.lock("r").shared().label("a").acquire().await.unwrap(),
        two.lock("r").shared().label("b").acquire().await.unwrap(),
    ];
    let few = [
        one.lock("l").max_holders(3).acquire().await.unwrap(),
        one.lock("l").max_holders(3).acquire().await.unwrap(),
    ];
    let (entries, _) = all(two.list("*")).await.unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!((parties(&entries[0]).0, entries[0].kind), (vec!["one", "one"], few_kind()));
    let mut holders = parties(&entries[1]).0;
    holders.sort_unstable();
    assert_eq!(holders, ["one", "two"]);
    let info = two.inspect("r").await.unwrap().unwrap();
    let mut labels: Vec<_> = info.holders.iter().map(|holder| holder.label.clone().unwrap()).collect();
    labels.sort_unstable();
    assert_eq!(labels, ["a", "b"]);
    drop((readers, few));
}

fn few_kind() -> distlock::LockKind {
    distlock::LockKind::Limited { max_holders: 3 }
}

/// A prefix is a deployment of its own.
#[tokio::test(flavor = "multi_thread")]
async fn other_prefixes_are_not_listed_and_keys_come_without_it() {
    let server = RedisServer::start();
    let with = async |prefix: &str| {
        LockManager::builder().url(server.url()).key_prefix(prefix).connect().await.unwrap()
    };
    let (shop, bank) = (with("shop[1]:").await, with("bank:").await);
    let _guards = (shop.lock("k").acquire().await.unwrap(), bank.lock("k").acquire().await.unwrap());
    let eye = with("shop[1]:").await;
    let (entries, _) = all(eye.list("*")).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!((&*entries[0].key, &*entries[0].full_key), ("k", "shop[1]:k"));
}
