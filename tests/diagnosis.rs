//! The findings of `diagnose` on servers with a bad and with a good configuration. Redis has separate tests.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use distlock::{LockManager, Severity};
use distlock_fixtures::{EtcdServers, MariaDbServer, MemcachedServer, PostgresServer, ZooKeeperServers};

/// The subjects of the findings, without the place, and their severities. Checks that every finding that is not fine
/// has a remedy.
async fn examined(url: &str) -> Vec<(String, Severity)> {
    let manager =
        LockManager::builder().url(url).unavailable_after(crate::each_store::LONG).connect().await.unwrap();
    let found = manager.diagnose().await.unwrap();
    let mut all = Vec::new();
    for finding in found {
        let is_in_order = finding.severity == Severity::Fine;
        assert!(is_in_order || finding.remedy.is_some(), "no remedy: {finding:?}");
        let (_, subject) = finding.about.rsplit_once(": ").unwrap_or_else(|| panic!("no place: {finding:?}"));
        all.push((subject.to_owned(), finding.severity));
    }
    all
}

/// The severity of the finding for a subject.
async fn of(url: &str, subject: &str) -> Severity {
    let all = examined(url).await;
    let found = all.iter().find(|(about, _)| about == subject);
    found.unwrap_or_else(|| panic!("`{subject}` was not examined: {all:?}")).1
}

async fn nothing_is_wrong(url: &str) {
    let all = examined(url).await;
    assert!(!all.is_empty() && all.iter().all(|(_, severity)| *severity <= Severity::Note), "{all:?}");
}

#[tokio::test]
async fn postgres() {
    // The last setting of a name counts.
    let well = PostgresServer::with(&["fsync=on"]);
    nothing_is_wrong(&well.url()).await;
    let commit = "synchronous_commit";
    assert_eq!(of(&format!("{}?{commit}=off", well.url()), commit).await, Severity::Warning);
    let badly = PostgresServer::with(&[
        "fsync=off",
        "synchronous_commit=off",
        "autovacuum=off",
        "statement_timeout=900",
    ]);
    for (subject, severity) in [
        ("fsync", Severity::Fault),
        (commit, Severity::Warning),
        ("autovacuum", Severity::Warning),
        ("statement_timeout", Severity::Warning),
    ] {
        assert_eq!(of(&badly.url(), subject).await, severity, "{subject}");
    }
    assert_eq!(of(&format!("{}?listen=off", badly.url()), "waiters").await, Severity::Note);
}

/// A role sees the sessions of other roles, but not their kinds.
#[tokio::test]
async fn postgres_as_an_ordinary_role_while_another_one_keeps_dead_rows() {
    let server = PostgresServer::start();
    drop(LockManager::connect(&server.url()).await.unwrap());
    server.make_role("app", "s3cret").await;
    server
        .run("GRANT USAGE ON SCHEMA distlock TO app; GRANT ALL ON ALL TABLES IN SCHEMA distlock TO app")
        .await;
    let url = server.url_as("app", "s3cret");
    assert_eq!(of(&url, "oldest transaction").await, Severity::Fine);
    let (reader, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    server.run("DO $$ BEGIN FOR i IN 1..100001 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$").await;
    assert_eq!(of(&url, "oldest transaction").await, Severity::Warning);
    reader.batch_execute("COMMIT").await.unwrap();
    assert_eq!(of(&url, "oldest transaction").await, Severity::Fine);
}

#[tokio::test]
async fn mariadb() {
    nothing_is_wrong(&MariaDbServer::with(&["--innodb-flush-log-at-trx-commit=1"]).url()).await;
    let badly =
        MariaDbServer::with(&["--innodb-flush-log-at-trx-commit=2", "--log-bin=binlog", "--sync-binlog=0"]);
    for subject in ["innodb_flush_log_at_trx_commit", "sync_binlog"] {
        assert_eq!(of(&badly.url(), subject).await, Severity::Fault, "{subject}");
    }
}

#[tokio::test]
async fn memcached() {
    let well = MemcachedServer::with(&["-M"]);
    nothing_is_wrong(&well.url()).await;
    assert_eq!(of(&well.url(), "evictions").await, Severity::Fine);
    let server = MemcachedServer::with_login("user", "pw");
    let url = format!("memcached://user:pw@{}", server.address());
    assert_eq!(of(&url, "evictions").await, Severity::Note);
    // So full of items that it evicts some.
    let full = MemcachedServer::with(&["-m", "1", "-I", "512k"]);
    let filled = || {
        let stats = full.ask("stats", &["END"]);
        stats.iter().any(|line| line.strip_prefix("STAT evictions ").is_some_and(|count| count.trim() != "0"))
    };
    let item = "x".repeat(100_000);
    for number in 0..1_000 {
        if filled() {
            break;
        }
        full.ask(&format!("set filler-{number} 0 0 {}\r\n{item}", item.len()), &["STORED"]);
    }
    assert_eq!(of(&full.url(), "evictions").await, Severity::Warning);
}

#[tokio::test]
async fn etcd() {
    let alone = EtcdServers::start(1, &[]);
    nothing_is_wrong(&alone.url()).await;
    assert_eq!(of(&alone.url(), "members").await, Severity::Note);
    assert_eq!(of(&EtcdServers::start(2, &[]).url(), "members").await, Severity::Warning);
    assert_eq!(of(&EtcdServers::start(3, &[]).url(), "members").await, Severity::Fine);
}

#[tokio::test]
async fn zookeeper() {
    let three = ZooKeeperServers::three();
    nothing_is_wrong(&three.url()).await;
    let short = ZooKeeperServers::start(1, &["maxSessionTimeout=4000"]);
    let url = format!("{}?session_timeout=30s", short.url());
    assert_eq!(of(&url, "session").await, Severity::Note);
    let mute = ZooKeeperServers::start(1, &["4lw.commands.whitelist=ruok"]);
    let all = examined(&mute.url()).await;
    let member = all.iter().find(|(about, _)| mute.address(0).ends_with(&**about));
    assert_eq!(member.map(|(_, severity)| *severity), Some(Severity::Note), "{all:?}");
}

#[tokio::test]
async fn sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    nothing_is_wrong(&url).await;
    assert_eq!(of(&url, "durability").await, Severity::Fine);
}

/// The time of the diagnosis is limited, and holders are not disturbed.
#[tokio::test]
async fn a_server_that_stands_still_is_an_error() {
    let server = PostgresServer::start();
    let manager = LockManager::connect(&server.url()).await.unwrap();
    server.stop();
    let examined = tokio::time::timeout(Duration::from_secs(120), manager.diagnose()).await.expect("it ends");
    server.cont();
    examined.unwrap_err();
}
