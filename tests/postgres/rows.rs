//! The rows that stay in the tables, and those that are removed.

use std::time::Duration;

use distlock_fixtures::PostgresServer;
use distlock_tests::eventually;

use crate::postgres::manager;

/// In the same way as processes of distlock 0.1.0.
#[tokio::test]
async fn tokens_rise_although_rows_of_old_keys_are_removed() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let manager = manager(&server.url(), &schema).await;
    let token = async |key: &str| {
        let guard = manager.lock(key).fenced().acquire().await.unwrap();
        let token = guard.fencing_token().unwrap().get();
        guard.release().await.unwrap();
        token
    };
    for _ in 0..9 {
        token("old").await;
    }
    let last = token("old").await;
    let held = manager.lock("held").fenced().acquire().await.unwrap();
    server
        .run(&format!("UPDATE {schema}.lock_1 SET expires = expires - interval '2 days' WHERE owner IS NULL"))
        .await;
    let removed: i64 = server.rows(&format!("SELECT {schema}.prune_1(100)")).await[0].get(0);
    assert_eq!(removed, 1);
    assert_eq!(server.rows(&format!("SELECT FROM {schema}.lock_1")).await.len(), 1);
    assert!(token("old").await > last);
    assert!(token("new").await > last);
    held.check().unwrap();
    held.release().await.unwrap();
}

/// Far more rows than one statement checks. A process begins some seconds after it has connected.
#[tokio::test]
async fn fifty_thousand_rows_of_old_keys_are_removed_by_one_pass() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let manager = manager(&server.url(), &schema).await;
    let held = manager.lock("held").fenced().acquire().await.unwrap();
    let old = format!(
        "INSERT INTO {schema}.lock_1 (key, expires, fence, fence_from)
            SELECT convert_to('old:' || n, 'UTF8'), now() - interval '2 days', n, n FROM generate_series(1, 50000) n;
        INSERT INTO {schema}.lock_1 (key, expires, fence, fence_from)
            SELECT convert_to('recent:' || n, 'UTF8'), now() - interval '1 hour', 0, 1 FROM generate_series(1, 2500) n;
        INSERT INTO {schema}.holder_1 VALUES ('dead', 'dl1:x:1', now() - interval '2 hours')"
    );
    // A transaction asserts one of the locks.
    let client = server.admin().await;
    server.run(&old).await;
    let asserts = format!("BEGIN; SELECT FROM {schema}.lock_1 WHERE key = 'old:7' FOR KEY SHARE");
    client.batch_execute(&asserts).await.unwrap();
    let count =
        async |sql: &str| server.rows(&format!("SELECT count(*) FROM {schema}.{sql}")).await[0].get(0);
    // This takes long on a slow disk.
    let are_removed = async {
        while count("lock_1 WHERE key < 'p'").await != 2_i64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let are_removed = tokio::time::timeout(Duration::from_secs(300), are_removed);
    are_removed.await.expect("the old rows are gone, but one");
    let (recent, dead): (i64, i64) =
        (count("lock_1 WHERE key > 'p'").await, count("holder_1 WHERE key = 'dead'").await);
    assert_eq!((recent, dead), (2_500, 0));
    client.batch_execute("COMMIT").await.unwrap();
    let again = manager.lock("old:50000").fenced().acquire().await.unwrap();
    assert!(again.fencing_token().unwrap().get() > 50_000);
    again.release().await.unwrap();
    held.check().unwrap();
    held.release().await.unwrap();
}

/// One statement for all rows could take so long that its process replaces its connections. So each statement reads
/// 10 000 rows, and a page may need several.
#[tokio::test]
async fn held_keys_among_many_free_ones_are_listed_by_several_statements() {
    const HELD: [&str; 5] = ["k00001", "k10000", "k10001", "k12345", "k25000"];
    let server = PostgresServer::start();
    drop(manager(&server.url(), "distlock").await);
    let rows = "INSERT INTO distlock.lock_1 (key, expires, fence, fence_from)
        SELECT convert_to('k' || lpad(n::text, 5, '0'), 'UTF8'), now() - interval '1 hour', n, n
        FROM generate_series(1, 25000) n";
    server.run(rows).await;
    let held = HELD.map(|key| format!("'{key}'")).join(", ");
    let hold =
        "UPDATE distlock.lock_1 SET owner = 'dl1:x:1', expires = now() + interval '1 hour' WHERE key IN";
    server.run(&format!("{hold} ({held})")).await;
    // Each session reports its scans at its end.
    let scans = async || {
        eventually("the sessions have ended", async || server.backends().await.is_empty()).await;
        let sql = "SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'lock_1'";
        server.rows(sql).await[0].get::<_, i64>(0)
    };
    let before = scans().await;
    let manager = manager(&server.url(), "distlock").await;
    let (mut locks, mut found) = (manager.list("k*"), Vec::new());
    while let Some(lock) = locks.next().await {
        found.push(lock.unwrap().key);
    }
    assert_eq!(found, HELD);
    drop((locks, manager));
    assert!(scans().await - before >= 3);
}

/// The text of a key whose row was removed, and that of one that is held.
#[tokio::test]
async fn a_published_text_is_removed_after_the_row_of_its_key() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let manager = manager(&server.url(), &schema).await;
    let held = manager.lock("held").acquire().await.unwrap();
    let publish = format!(
        "INSERT INTO {schema}.holder_1 SELECT decode('ff', 'hex') || key, 'dl1:x:1' || chr(10) || 'text', 'infinity'
            FROM (VALUES ('held'::bytea), ('removed')) AS published (key)"
    );
    server.run(&publish).await;
    let texts = format!("SELECT substring(key FROM 2) FROM {schema}.holder_1");
    eventually("one text is left", async || server.rows(&texts).await.len() == 1).await;
    let left: Vec<u8> = server.rows(&texts).await[0].get(0);
    assert_eq!(left, b"held");
    held.release().await.unwrap();
}

/// A session keeps its plans. One that reads all rows, because there were few, makes each new key slower.
#[tokio::test]
async fn new_keys_are_found_by_the_index_although_the_table_was_small_when_it_was_analyzed() {
    let server = PostgresServer::start();
    let lock = async |beginning: &str| {
        let manager = manager(&server.url(), "distlock").await;
        for at in 0..70 {
            manager.lock(format!("{beginning}{at}")).acquire().await.unwrap().release().await.unwrap();
        }
        drop(manager);
        // Each session reports its scans at its end.
        eventually("the sessions have ended", async || server.backends().await.is_empty()).await;
        let sql = "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relname = 'lock_1'";
        let rows = server.rows(sql).await;
        (rows[0].get::<_, i64>(0), rows[0].get::<_, i64>(1))
    };
    let before = lock("old").await;
    server.run("VACUUM ANALYZE distlock.lock_1").await;
    let after = lock("new").await;
    assert!(after.0 - before.0 < 10 && after.1 - before.1 > 100, "{before:?} {after:?}");
}
