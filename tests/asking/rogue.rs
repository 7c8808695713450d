//! Clients beside one that keeps to no rule: they hold and hand on their locks as if it were not there, keep nothing of
//! what it sends, and believe nothing that it has made up.

use distlock::LockManager;
use distlock_fixtures::{RogueClient, peak_memory, wait_until};
use distlock_tests::{BOUND, LockClient, RedisServer, eventually, until_waiting};

use super::{LONG, all, client};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");
/// A process may need so much more than before.
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

/// A list comes to its end, and tells of the others, whoever answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_an_end_ends_and_names_its_client() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let _guard = one.lock("honest").acquire().await.unwrap();
    let rogue = RogueClient::endless(&server);
    eventually("everybody has answered in time", async || {
        let (entries, unanswered) = all(eye.list("*")).await.unwrap();
        assert!(entries.is_sorted_by(|a, b| a.key < b.key));
        assert!(unanswered.iter().any(|id| id == rogue.id()), "{unanswered:?}");
        entries.len() > 1_000 && entries[0].key == "honest"
    })
    .await;
    eventually("what is not asked for is not told", async || {
        let (only, unanswered) = all(eye.list("hon*")).await.unwrap();
        (only.len(), unanswered.len()) == (1, 0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers_in_the_name_of_another_client() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let guard = one.lock("k").label("honest").acquire().await.unwrap();
    let _impostor = RogueClient::impostor(&server, "k", &guard.owner());
    for _ in 0..5 {
        // On a slow machine the holder may answer too late: nobody does it in its place.
        eventually("the holder answers", async || {
            let info = eye.inspect("k").await.unwrap().unwrap();
            let (entries, _) = all(eye.list("*")).await.unwrap();
            let holders = info.holders.iter().chain(entries.iter().flat_map(|entry| &entry.holders));
            let labels: Vec<&str> = holders.filter_map(|holder| holder.label.as_deref()).collect();
            assert!(labels.iter().all(|label| *label == "honest"), "{labels:?}");
            labels.len() == 2
        })
        .await;
    }
}

/// A forged grant with a number near the end of all numbers: behind it the data would refuse every honest token.
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
    // The server is asked, and says who has it.
    wait_until("it is asked", BOUND, || server.calls("evalsha") > asked);
    assert!(!waits.is_finished() && held.is_held());
    let before = held.fencing_token().unwrap();
    held.release().await.unwrap();
    let after = waits.await.unwrap().unwrap();
    let token = after.fencing_token().unwrap();
    assert!(token > before && token.get() < before.get() + 3_600_000_000, "{token} after {before}");
    after.release().await.unwrap();
}
