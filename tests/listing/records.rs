//! The records of a process and its locks, and how long they stay.

use std::time::Instant;

use distlock_tests::{LockClient, RedisServer, eventually};

use super::{LONG, SHORT, all, client};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

fn records(server: &RedisServer, pattern: &str) -> Vec<String> {
    server.run_words(&["KEYS", pattern])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_renewed_shows_its_label_and_its_age() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let start = Instant::now();
    let guard = one.lock("k").label("a b%").ttl(SHORT).acquire().await.unwrap();
    let info = eye.inspect("k").await.unwrap().unwrap();
    let process = info.holders[0].client.clone().unwrap();
    assert_eq!(process.pid, Some(std::process::id()), "that is known from the beginning");
    assert!(process.host.is_some() && process.program.is_some() && process.version.is_some(), "{process:?}");
    let mut holder = info.holders[0].clone();
    eventually("it is renewed", async || {
        holder = eye.inspect("k").await.unwrap().unwrap().holders.swap_remove(0);
        holder.label.is_some()
    })
    .await;
    assert_eq!((holder.label.as_deref(), holder.users), (Some("a b%"), Some(1)));
    let since = holder.since.unwrap();
    assert!(since > SHORT / 4 && since <= start.elapsed(), "{since:?}");
    assert_eq!(all(eye.list("*")).await.unwrap().0[0].holders[0].label.as_deref(), Some("a b%"));
    let left = server.pttl(&records(&server, "dl1:h:*")[0]);
    assert!((1..=3_000).contains(&left), "no longer than the lease: {left}");
    guard.release().await.unwrap();
}

/// Sections that end before their first renewal write no record.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_section_writes_nothing_beside_its_lock() {
    let server = RedisServer::start();
    let one = client(&server.url(), "one").await;
    for _ in 0..50 {
        one.lock("k").ttl(LONG).acquire().await.unwrap().release().await.unwrap();
    }
    assert!(records(&server, "dl1:h:*").is_empty());
    assert_eq!(records(&server, "*").len(), 1, "who the process is");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_outlives_its_process_by_no_more_than_its_ttl() {
    let server = RedisServer::start();
    let mut process = LockClient::connect(CLIENT, &server.url());
    process.send("acquire k 3000 0");
    process.expect("acquired");
    eventually("it has renewed its lease", async || !records(&server, "dl1:h:*").is_empty()).await;
    let (who, hold) = (records(&server, "dl1:i:*"), records(&server, "dl1:h:*"));
    drop(process);
    let most = |record: &str| server.pttl(record);
    assert!((1..=60_000).contains(&most(&who[0])));
    assert!(most(&hold[0]) <= 3_000);
    eventually("the record of its lease ends", async || records(&server, "dl1:h:*").is_empty()).await;
    let left = server.pttl(&who[0]);
    eventually("nobody writes it anew", async || server.pttl(&who[0]) < left).await;
}

/// A process that is never idle writes its record, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_written_anew_while_its_process_lives() {
    let server = RedisServer::start();
    let one = client(&server.url(), "one").await;
    eventually("it has written who it is", async || records(&server, "dl1:i:*").len() == 1).await;
    let record = records(&server, "dl1:i:*").swap_remove(0);
    server.raw(&["DEL", &record]);
    eventually("it writes that again", async || {
        one.lock("k").acquire().await.unwrap().release().await.unwrap();
        server.exists(&record)
    })
    .await;
}
