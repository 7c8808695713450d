//! One server, sentinels, a cluster, a quorum: every lock is listed once.

use distlock::{LockEntry, LockManager};
use distlock_tests::{
    ClusterServers, QuorumServers, RedisServer, SentinelGroup, ShardServers, eventually, until_waiting,
};

use super::{LONG, SHORT, all, client, parties};

/// Three clients: one holds a lock, one waits, one lists.
async fn everybody_is_seen(url: &str) {
    let (one, two, eye) = (client(url, "one").await, client(url, "two").await, client(url, "eye").await);
    let held = one.lock("order:1").label("checkout").ttl(SHORT).acquire().await.unwrap();
    // These keys are on all nodes of a cluster.
    let keys: Vec<String> = (2..30).map(|number| format!("order:{number:02}")).collect();
    let also = two.lock_all(&keys).ttl(LONG).acquire().await.unwrap();
    let other = two.lock("user:1").acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("order:1").wait(LONG).acquire());
    until_waiting(&one, "order:1", 1).await;

    let first = |entries: &[LockEntry]| entries.iter().find(|entry| entry.key == "order:1").cloned();
    let mut entries = Vec::new();
    eventually("everybody has written who it is, and the first lease is renewed", async || {
        let mut locks = eye.list("*");
        entries.clear();
        while let Some(entry) = locks.next().await {
            entries.push(entry.unwrap());
        }
        let clients = locks.clients().len();
        let was_renewed = first(&entries).is_some_and(|entry| entry.holders[0].label.is_some());
        clients == 3 && locks.unanswered().is_empty() && was_renewed
    })
    .await;
    let listed: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let mut all_keys: Vec<&str> = keys.iter().map(String::as_str).chain(["order:1", "user:1"]).collect();
    all_keys.sort_unstable();
    assert_eq!(listed, all_keys, "once each, and in order");
    let (some, _) = all(eye.list("order:0*")).await.unwrap();
    assert_eq!(some.len(), 8);
    let entry = first(&entries).unwrap();
    assert_eq!(parties(&entry), (vec!["one"], vec!["two"]));
    let holder = &entry.holders[0];
    assert_eq!(holder.label.as_deref(), Some("checkout"));
    assert_eq!(holder.client.as_ref().unwrap().pid, Some(std::process::id()));
    assert!(holder.since.is_some() && holder.remaining.is_some() && holder.users == Some(1), "{holder:?}");

    let info = eye.inspect("order:1").await.unwrap().unwrap();
    assert_eq!(info.holders[0].token, holder.token);
    assert_eq!(info.holders[0].label.as_deref(), Some("checkout"));
    assert_eq!(info.waiting.len(), 1);
    let process = info.waiting[0].client.as_ref().unwrap();
    assert!(process.host.is_some() && process.program.is_some() && process.version.is_some(), "{process:?}");
    assert!(info.unanswered.is_empty(), "{info:?}");

    held.release().await.unwrap();
    also.release().await.unwrap();
    other.release().await.unwrap();
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
async fn on_servers_that_share_the_keys() {
    let servers = ShardServers::start();
    everybody_is_seen(&servers.url()).await;
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
        one.lock("r").shared().label("a").ttl(SHORT).acquire().await.unwrap(),
        two.lock("r").shared().label("b").ttl(SHORT).acquire().await.unwrap(),
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
    eventually("their leases were renewed", async || {
        let info = two.inspect("r").await.unwrap().unwrap();
        let mut labels: Vec<_> = info.holders.iter().filter_map(|holder| holder.label.clone()).collect();
        labels.sort_unstable();
        labels == ["a", "b"]
    })
    .await;
    drop((readers, few));
}

fn few_kind() -> distlock::LockKind {
    distlock::LockKind::Limited { max_holders: 3 }
}

/// Each prefix is a separate deployment.
#[tokio::test(flavor = "multi_thread")]
async fn other_prefixes_are_not_listed_and_keys_come_without_it() {
    let server = RedisServer::start();
    let with = async |prefix: &str| {
        LockManager::builder().url(server.url()).key_prefix(prefix).connect().await.unwrap()
    };
    let (shop, bank, none) = (with("shop[1]:").await, with("bank:").await, with("").await);
    let request = |manager: &LockManager| manager.lock("k").ttl(SHORT).acquire();
    let _guards = (request(&shop).await.unwrap(), request(&bank).await.unwrap());
    let eye = with("shop[1]:").await;
    let (entries, _) = all(eye.list("*")).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!((&*entries[0].key, &*entries[0].full_key), ("k", "shop[1]:k"));
    // For a client without a prefix, they are locks with longer keys. Their records are not locks.
    let records = || server.run_words::<Vec<String>>(&["KEYS", "*:dl1:h:*"]).len();
    eventually("both were renewed", async || records() == 2).await;
    let (entries, _) = all(none.list("*")).await.unwrap();
    assert_eq!(entries.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["bank:k", "shop[1]:k"]);
}

/// Without one of its masters, a cluster lists the locks of the others, and names the missing master.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_cannot_be_reached_is_named() {
    let mut cluster = ClusterServers::start_steady();
    let (one, eye) = (client(&cluster.url(), "one").await, client(&cluster.url(), "eye").await);
    let keys: Vec<String> = (0..30).map(|number| format!("order:{number:02}")).collect();
    let guards = one.lock_all(&keys).ttl(LONG).acquire().await.unwrap();
    cluster.servers_mut()[1].kill9();
    eventually("the others are listed", async || {
        let mut locks = eye.list("*");
        let mut count = 0;
        while let Some(entry) = locks.next().await {
            if entry.is_err() {
                return false;
            }
            count += 1;
        }
        locks.unread().len() == 1 && (1..30).contains(&count)
    })
    .await;
    drop(guards);
}
