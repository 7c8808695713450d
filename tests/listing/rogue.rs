//! Clients with a hostile client on the same server. They hold and pass on their locks as without it, store nothing of
//! its data, and accept no fencing token that it has invented.

use distlock::LockManager;
use distlock_fixtures::{RogueClient, peak_memory, wait_until};
use distlock_tests::{BOUND, LockClient, RedisServer, until_waiting};

use super::{LONG, all, client};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");
/// How much more memory a process may need than before.
const MORE_MEMORY: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_process_keeps_nothing_of_what_it_is_sent() {
    let server = RedisServer::start();
    let mut process = LockClient::connect(CLIENT, &server.url());
    process.send("acquire k 600000 0");
    process.expect("acquired");
    let before = peak_memory(process.id()).expect("it lives");
    let garbage = RogueClient::garbage(&server);
    wait_until("it has sent much", BOUND * 4, || garbage.sent() > 300);
    drop(garbage);
    let after = peak_memory(process.id()).expect("it lives");
    assert!(after < before + MORE_MEMORY, "{} MiB instead of {}", after >> 20, before >> 20);
    process.send("release k");
    process.expect("released");
}

/// There are also invented locks and clients.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_beside_thousands_of_strange_locks_is_in_order_and_whole() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let _guard = one.lock("honest").acquire().await.unwrap();
    server.write_many(5_000);
    let mut locks = eye.list("*");
    let (mut count, mut last) = (0, String::new());
    while let Some(lock) = locks.next().await {
        let key = lock.unwrap().key;
        assert!(key > last, "in order: {last}, {key}");
        (count, last) = (count + 1, key);
    }
    assert_eq!(count, 5_001);
    assert_eq!(locks.clients().len(), 2 + 5_000);
    let (only, silent) = all(eye.list("hon*")).await.unwrap();
    assert_eq!((only.len(), silent.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_megabytes_are_cut_on_the_server() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let guard = one.lock("honest").ttl(LONG).acquire().await.unwrap();
    server.write_huge_fields("honest", &guard.owner());
    for _ in 0..3 {
        let (entries, _) = all(eye.list("*")).await.unwrap();
        let keys: Vec<&str> = entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(keys, ["honest", "huge", "many"]);
        assert!(entries[1].holders[0].token.len() <= 4096 && entries[2].holders[0].token.len() <= 4096);
        let info = eye.inspect("honest").await.unwrap().unwrap();
        assert!(info.holders[0].token == guard.owner() && info.holders[0].label.is_none(), "{info:?}");
    }
}

/// Names of locks and clients contain other values.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_other_types_hide_nothing_but_themselves() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let guard = one.lock("honest").acquire().await.unwrap();
    server.write_other_types("honest", &guard.owner());
    let (entries, silent) = all(eye.list("*")).await.unwrap();
    let keys: Vec<&str> = entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!(keys, ["held by a list", "held by nonsense", "honest"]);
    assert_eq!(entries[2].holders[0].client.as_ref().unwrap().pid, Some(std::process::id()));
    assert_eq!(silent, ["rogue.nonsense"]);
    assert!(eye.inspect("a set").await.unwrap_err().to_string().contains("not a lock"));
}

/// A forged grant with almost the largest number. After such a token, the data would refuse every honest one.
#[tokio::test(flavor = "multi_thread")]
async fn no_fencing_token_comes_from_a_forged_grant() {
    let server = RedisServer::start();
    let (one, two) = (client(&server.url(), "one").await, client(&server.url(), "two").await);
    let held = one.lock("k").fenced().acquire().await.unwrap();
    let waiting = |manager: &LockManager| tokio::spawn(manager.lock("k").fenced().wait(LONG).acquire());
    let waits = waiting(&two);
    until_waiting(&one, "k", 1).await;
    let token: String = server.run_words(&["LINDEX", "dl1:q:k", "0"]);
    let asker = token.split(':').nth(1).unwrap();
    let asked = server.calls("evalsha");
    for _ in 0..3 {
        let (seconds, micros): (u64, u64) = server.run_words(&["TIME"]);
        let now = seconds * 1_000_000 + micros;
        let grant = format!("g {now} {now} 9007199254740990 {token} k");
        let heard: u64 = server.run_words(&["PUBLISH", &format!("dl1:c:{asker}"), &grant]);
        assert_eq!(heard, 1);
    }
    // The client asks the server, which names the holder.
    wait_until("it is asked", BOUND, || server.calls("evalsha") > asked);
    assert!(!waits.is_finished() && held.is_held());
    let before = held.fencing_token().unwrap();
    held.release().await.unwrap();
    let after = waits.await.unwrap().unwrap();
    let token = after.fencing_token().unwrap();
    assert!(token > before && token.get() < before.get() + 3_600_000_000, "{token} after {before}");
    after.release().await.unwrap();
}
