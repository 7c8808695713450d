//! Tests that only a file needs: processes that are killed or stopped while they use it, and faults of the file. The
//! conformance suite has the rules for all stores. `faults` has the kinds of locks with killed processes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use distlock_tests::LockClient;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::each_store::{LONG, manager, refusal};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

/// A directory for a file of locks, and the file's URL.
fn file() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", directory.path().display());
    (directory, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_process_that_was_killed_is_free_when_its_lease_is_over_and_tokens_rise() {
    let (_directory, url) = file();
    let mut holder = LockClient::connect(CLIENT, &url);
    holder.send("acquire k 1500 1000 fenced");
    let first = holder.expect("acquired");
    holder.kill9();
    let manager = manager(&url).await;
    let guard = manager.lock("k").fenced().wait(LONG).acquire().await.unwrap();
    assert!(guard.fencing_token().unwrap().get() > first.number("fence").unwrap());
    guard.release().await.unwrap();
}

/// The process keeps the file locked. Other processes only wait, and all continue after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_in_the_middle_of_a_transaction_delays_the_others_and_no_more() {
    let (directory, url) = file();
    let mut writer = LockClient::connect(CLIENT, &url);
    writer.send("mixed 1 4 1000000 2000");
    writer.expect("entered");
    let probe = Connection::open(directory.path().join("locks.db")).unwrap();
    probe.busy_timeout(Duration::ZERO).unwrap();
    loop {
        writer.stop();
        if probe.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err() {
            break;
        }
        writer.cont();
        // The writer makes progress, so a stop hits it in a transaction sooner or later.
        while writer.next().name() != "left" {}
    }
    // The file can be opened and read.
    let manager = manager(&url).await;
    let waiter = tokio::spawn(manager.lock("its own").fenced().wait(LONG).acquire());
    assert!(manager.inspect("its own").await.unwrap().is_none());
    assert!(!waiter.is_finished());
    writer.cont();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    while writer.next().name() != "entered" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_told_when_its_file_was_replaced_and_tokens_rise() {
    let (directory, url) = file();
    let (one, other) = (manager(&url).await, manager(&url).await);
    let guard = one.lock("k").ttl(Duration::from_secs(3)).fenced().acquire().await.unwrap();
    for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    let next = other.lock("k").fenced().wait(LONG).acquire().await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    guard.lost().await;
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_a_lock_is_shown_with_its_process_and_the_time_since_then() {
    let (_directory, url) = file();
    let mut holder = LockClient::connect(CLIENT, &url);
    holder.send("acquire k 60000 1000");
    holder.expect("acquired");
    let manager = manager(&url).await;
    let mut locks = manager.list("*");
    let lock = locks.next().await.unwrap().unwrap();
    assert!(locks.next().await.is_none());
    let (key, found) = (&*lock.key, &lock.holders[0]);
    let process = found.client.as_ref().unwrap();
    assert_eq!((key, process.pid, process.program.as_deref()), ("k", Some(holder.id()), Some("lock-client")));
    assert!(process.host.is_some() && found.since.is_some(), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_file_is_said_at_once() {
    let (directory, url) = file();
    let missing = refusal(&url.replace("locks.db", "nowhere/locks.db")).await;
    assert!(missing.to_string().contains("nowhere: No such file"), "{missing}");
    fs::write(directory.path().join("locks.db"), "a diary, ".repeat(100)).unwrap();
    let diary = refusal(&url).await;
    assert!(diary.to_string().contains("not a database"), "{diary}");
    // This stops an administrator, too.
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let in_the_way = refusal(&format!("sqlite:{}/locks.db", file.display())).await;
    assert!(in_the_way.is_unavailable(), "{in_the_way}");
    assert!(in_the_way.to_string().contains("file: Not a directory"), "{in_the_way}");
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o500)).unwrap();
    // An administrator may write to any folder.
    if fs::write(closed.path().join("probe"), "").is_err() {
        let error = refusal(&format!("sqlite:{}/locks.db", closed.path().display())).await;
        assert!(error.is_unavailable(), "{error}");
    }
}
