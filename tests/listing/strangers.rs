//! Holders without a heartbeat: foreign programs, and processes that have died or are stopped.

use distlock::{LockClient, LockManager};
use distlock_tests::{RedisServer, eventually, until_waiting};

use super::{LONG, all, client, parties};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_a_plain_client_is_listed_with_its_token() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    server.raw(&["SET", "k", "a shell script", "NX", "PX", "600000"]);
    let info = eye.inspect("k").await.unwrap().unwrap();
    let holder = &info.holders[0];
    assert_eq!((&*holder.token, &holder.client, &holder.label), ("a shell script", &None, &None));
    assert!(holder.remaining.is_some() && info.unanswered.is_empty());
    let (entries, silent) = all(eye.list("*")).await.unwrap();
    assert_eq!((&*entries[0].holders[0].token, silent.len()), ("a shell script", 0));
    let waits = tokio::spawn(one.lock("k").wait(LONG).acquire());
    until_waiting(&eye, "k", 1).await;
    let (entries, _) = all(eye.list("*")).await.unwrap();
    assert_eq!(entries[0].holders[0].token, "a shell script");
    assert_eq!(parties(&entries[0]), (vec![], vec!["one"]));
    waits.abort();
}

/// Whether the list names this client, which holds a lock, as one without a heartbeat.
async fn is_silent(eye: &LockManager, of: &LockClient) -> bool {
    let (entries, silent) = all(eye.list("*")).await.unwrap();
    assert_eq!((entries.len(), &*entries[0].key), (1, "k"), "it is listed all the time");
    assert_eq!(entries[0].holders[0].client.as_ref().unwrap().pid, of.pid, "{entries:?}");
    let info = eye.inspect("k").await.unwrap().unwrap();
    info.unanswered == silent && silent == std::slice::from_ref(&of.id)
}

/// A stopped or dead process holds its lock until the lease expires. The list still names it.
#[tokio::test(flavor = "multi_thread")]
async fn locks_of_the_stopped_and_the_dead_are_listed_and_their_processes_named_as_silent() {
    let server = RedisServer::start();
    let mut process = distlock_tests::LockClient::connect(CLIENT, &server.url());
    process.send("acquire k 600000 0");
    process.expect("acquired");
    let eye = client(&server.url(), "eye").await;
    let of = eye.inspect("k").await.unwrap().unwrap().holders.swap_remove(0).client.unwrap();
    assert_eq!((of.pid, of.program.as_deref()), (Some(process.id()), Some("lock-client")));

    process.stop();
    eventually("it is silent", async || is_silent(&eye, &of).await).await;
    process.cont();
    eventually("it gives a sign of life", async || all(eye.list("*")).await.unwrap().1.is_empty()).await;
    drop(process);
    eventually("it is dead", async || is_silent(&eye, &of).await).await;
}

/// Invalid messages are ignored.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_on_its_channel_does_not_disturb_a_client() {
    let server = RedisServer::start();
    let (one, two) = (client(&server.url(), "one").await, client(&server.url(), "two").await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let info = one.inspect("k").await.unwrap().unwrap();
    for id in [&info.holders[0].client, &info.waiting[0].client] {
        let channel = format!("dl1:c:{}", id.as_ref().unwrap().id);
        for text in
            ["g", "g x", "p a 1 0 k", "w", "z 1 2 3", "", "g 99999999999999999999 1 0 k k", "i \u{0} 1"]
        {
            let listeners: u64 = server.run_words(&["PUBLISH", &channel, text]);
            assert_eq!(listeners, 1, "it listens");
        }
    }
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}
