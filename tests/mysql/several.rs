//! Locks with several holders: their cost, and their table.

use distlock::testing::eventually;
use distlock::{LockKind, LockManager, LockRequest};
use distlock_fixtures::MariaDbServer;
use mysql_async::prelude::Queryable;

use crate::each_store::{LONG, manager, refusal};
use crate::mysql::{ROWS_AWAITED, tables_of_its_own};

pub(super) const TWO: LockKind = LockKind::Limited { max_holders: 2 };
pub(super) const KINDS: [LockKind; 2] = [LockKind::Shared, TWO];

pub(super) fn request(manager: &LockManager, key: &str, kind: LockKind) -> LockRequest {
    match kind {
        LockKind::Exclusive => manager.lock(key),
        LockKind::Shared => manager.lock(key).shared(),
        LockKind::Limited { max_holders } => manager.lock(key).max_holders(max_holders),
    }
}

pub(super) async fn count(server: &MariaDbServer, name: &str) -> i64 {
    let sql = format!(
        "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status WHERE variable_name = '{name}'"
    );
    server.number(&sql).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_costs_one_transaction_and_its_release_another() {
    let server = MariaDbServer::start();
    let manager = manager(&server.url()).await;
    for kind in KINDS {
        let begun = count(&server, "COM_BEGIN").await;
        for _ in 0..2 {
            for number in 0..10 {
                let key = format!("{kind} {number}");
                request(&manager, &key, kind).acquire().await.unwrap().release().await.unwrap();
            }
        }
        assert_eq!(count(&server, "COM_BEGIN").await - begun, 40);
    }
    // No other statement was executed.
    assert_eq!(count(&server, "COM_STMT_EXECUTE").await, 0);
    let rows = "SELECT COUNT(*) FROM distlock_holder_1";
    assert_eq!(server.number(rows).await, 0, "holders that have left stay in the table");
}

/// The tables of version 0.1.0.
const EARLIER: &str = "
    CREATE TABLE distlock_lock_1 (
        k VARBINARY(1280) NOT NULL PRIMARY KEY,
        owner VARBINARY(128) NOT NULL,
        expires DATETIME(6) NOT NULL,
        fence BIGINT NOT NULL,
        fence_from BIGINT NOT NULL
    ) ENGINE = InnoDB;
    CREATE TABLE distlock_floor_1 (one TINYINT NOT NULL PRIMARY KEY, least BIGINT NOT NULL) ENGINE = InnoDB;
    INSERT INTO distlock_floor_1 (one, least) VALUES (1, 30);
    INSERT INTO distlock_lock_1 VALUES
        ('free', '-', UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, 40, 41),
        ('held', 'dl1:earlier:7', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, 50, 50);
";

#[tokio::test]
async fn the_tables_of_the_version_before_are_completed_and_what_is_held_stays_held() {
    let server = MariaDbServer::start();
    server.run(EARLIER).await;
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    assert_eq!(one.inspect("held").await.unwrap().unwrap().holder, "dl1:earlier:7");
    assert!(one.lock("held").shared().try_acquire().await.unwrap().is_none());
    for key in ["free", "new"] {
        let _one = one.lock(key).shared().acquire().await.unwrap();
        let _other = other.lock(key).shared().no_wait().acquire().await.unwrap();
    }
    for (key, last) in [("free", 40), ("new", 30)] {
        let guard = one.lock(key).fenced().wait(LONG).acquire().await.unwrap();
        assert!(guard.fencing_token().unwrap().get() > last, "{key}");
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_complete_them_has_exclusive_locks_and_is_told_what_is_missing() {
    let server = MariaDbServer::start();
    server.run(EARLIER).await;
    server
        .run(
            "CREATE USER app; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.distlock_lock_1 TO app; \
             GRANT SELECT, UPDATE ON locks.distlock_floor_1 TO app",
        )
        .await;
    let app = manager(&server.url_as("app", "")).await;
    let guard = app.lock("k").fenced().acquire().await.unwrap();
    guard.extend(LONG).await.unwrap();
    let mut locks = app.list("*");
    while let Some(lock) = locks.next().await {
        lock.unwrap();
    }
    guard.release().await.unwrap();
    for kind in KINDS {
        let error = request(&app, "k", kind).acquire().await.unwrap_err().to_string();
        assert!(error.contains("distlock_holder_1") && error.contains("GRANT"), "{error}");
    }
    // A user with the permission to create the table connects.
    drop(manager(&server.url()).await);
    server.run("GRANT SELECT, INSERT, UPDATE, DELETE ON locks.distlock_holder_1 TO app").await;
    app.lock("k").shared().acquire().await.unwrap().release().await.unwrap();
    assert!(app.inspect("k").await.unwrap().is_none());
}

/// The error for a user without the tables names all of them.
#[tokio::test]
async fn the_table_of_holders_is_among_those_to_be_made() {
    let server = MariaDbServer::start();
    server.run("CREATE USER app; GRANT SELECT ON locks.* TO app").await;
    let text = refusal(&server.url_as("app", "")).await.to_string();
    assert!(text.contains("DELETE ON `distlock_holder_1` TO …"), "{text}");
    let sql = distlock_mysql::sql("distlock_").unwrap();
    assert!(sql.contains("CREATE TABLE IF NOT EXISTS `distlock_holder_1`"), "{sql}");
}

#[tokio::test]
async fn settings_of_the_server_do_not_matter() {
    let server = MariaDbServer::start();
    let modes = "ORACLE,HIGH_NOT_PRECEDENCE,SIMULTANEOUS_ASSIGNMENT,NO_BACKSLASH_ESCAPES,TRADITIONAL";
    for settings in [
        format!("sql_mode = '{modes}'"),
        "completion_type = 'RELEASE', autocommit = 0".to_owned(),
        "tx_isolation = 'SERIALIZABLE', completion_type = 'CHAIN'".to_owned(),
        "collation_connection = 'utf8mb4_bin', time_zone = '+09:00', innodb_snapshot_isolation = 1"
            .to_owned(),
    ] {
        server.run(&format!("SET GLOBAL {}", settings.replace(", ", ", GLOBAL "))).await;
        let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
        for kind in KINDS {
            let first = request(&one, "k", kind).ttl(LONG).acquire().await.unwrap();
            let second = request(&other, "k", kind).no_wait().acquire().await.unwrap();
            first.extend(LONG * 2).await.unwrap();
            let shown = one.inspect("k").await.unwrap().unwrap();
            assert_eq!((shown.kind, shown.holders.len()), (kind, 2), "{settings}");
            assert!(shown.holders[0].remaining.is_some_and(|left| left > LONG), "{settings}: {shown:?}");
            first.release().await.unwrap();
            second.release().await.unwrap();
            assert!(one.inspect("k").await.unwrap().is_none(), "{settings}");
        }
    }
}

#[tokio::test]
async fn a_key_that_was_freed_by_force_forgets_its_holders() {
    let (one, other) = {
        let url = tables_of_its_own(MariaDbServer::shared()).0;
        (manager(&url).await, manager(&url).await)
    };
    for kind in KINDS {
        let first = request(&one, "k", kind).ttl(LONG).acquire().await.unwrap();
        let second = request(&one, "k", kind).ttl(LONG).acquire().await.unwrap();
        assert!(other.force_release("k").await.unwrap());
        assert!(!other.force_release("k").await.unwrap());
        // In between, the key has another kind, so no statement has removed their rows.
        other.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
        let next = request(&other, "k", kind).ttl(LONG).acquire().await.unwrap();
        assert!(first.extend(LONG).await.is_err() && second.extend(LONG).await.is_err());
        assert_eq!(other.inspect("k").await.unwrap().unwrap().holders.len(), 1);
        next.release().await.unwrap();
        assert!(other.inspect("k").await.unwrap().is_none());
    }
}

/// The key is free, and its next lease lasts for its own ttl, and not for the time of the jump.
#[tokio::test]
async fn a_free_row_from_before_the_clock_was_set_back_keeps_nobody_out() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let manager = manager(&url).await;
    for kind in KINDS {
        request(&manager, "k", kind).acquire().await.unwrap().release().await.unwrap();
        server.run(&format!("UPDATE {prefix}lock_1 SET expires = expires + INTERVAL 1 HOUR")).await;
        let guard = request(&manager, "k", kind).ttl(LONG).try_acquire().await.unwrap().expect("it is free");
        let row = format!(
            "SELECT CAST(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), expires) AS SIGNED) FROM {prefix}lock_1"
        );
        assert!(server.number(&row).await <= 600);
        guard.release().await.unwrap();
    }
}

/// If a statement of a transaction fails, the transaction is ended, so the row of its key does not stay locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_a_holder_that_somebody_else_has_locked_delays_its_key_alone() {
    let server = MariaDbServer::start();
    let manager = manager(&server.url()).await;
    let held = manager.lock("k").shared().ttl(LONG).acquire().await.unwrap();
    let mut somebody = server.admin().await;
    // Otherwise it would also lock the gaps of other keys.
    somebody.query_drop("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
    somebody.query_drop("BEGIN").await.unwrap();
    somebody.query_drop("SELECT * FROM distlock_holder_1 WHERE k = 'k' FOR UPDATE").await.unwrap();
    let release = tokio::spawn(held.release());
    let failed = async || count(&server, "COM_ROLLBACK").await;
    eventually("it was given up once", async || failed().await > 0).await;
    for _ in 0..20 {
        manager.lock("other").shared().wait(LONG).acquire().await.unwrap().release().await.unwrap();
    }
    let mut looks = server.admin().await;
    eventually("the row of the key is not locked", async || {
        let sql = "SELECT owner FROM distlock_lock_1 WHERE k = 'k' FOR UPDATE NOWAIT";
        looks.query_drop(sql).await.is_ok()
    })
    .await;
    somebody.query_drop("COMMIT").await.unwrap();
    release.await.unwrap().unwrap();
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn holders_that_ended_long_ago_are_removed() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let first = manager(&url).await;
    let held = first.lock("held").shared().ttl(LONG).acquire().await.unwrap();
    let old = "('gone', 'dl1:dead:1', UTC_TIMESTAMP(6) - INTERVAL 2 DAY)";
    server.run(&format!("INSERT INTO {prefix}holder_1 VALUES {old}")).await;
    // This manager checks the rows a few seconds after it has connected.
    let _other = manager(&url).await;
    let rows = format!("SELECT COUNT(*) FROM {prefix}holder_1");
    eventually("the row is removed", async || server.number(&rows).await == 1).await;
    held.release().await.unwrap();
}

/// No request decides by data from before its wait for the row.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_wait_for_the_row_of_a_key_one_is_let_in() {
    const ONE: LockKind = LockKind::Limited { max_holders: 1 };
    let server = MariaDbServer::start();
    let managers = [manager(&server.url()).await, manager(&server.url()).await];
    let mut somebody = server.admin().await;
    for kinds in [
        [LockKind::Exclusive, LockKind::Shared],
        [LockKind::Shared, LockKind::Exclusive],
        [LockKind::Exclusive, TWO],
        [TWO, LockKind::Shared],
        [ONE, ONE],
    ] {
        managers[0].lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
        somebody.query_drop("BEGIN").await.unwrap();
        somebody.query_drop("SELECT * FROM distlock_lock_1 WHERE k = 'k' FOR UPDATE").await.unwrap();
        let mut asked = Vec::new();
        for (manager, kind) in managers.iter().zip(kinds) {
            asked.push(tokio::spawn(request(manager, "k", kind).ttl(LONG).no_wait().acquire()));
            let waiting = i64::try_from(asked.len()).unwrap();
            eventually("it waits for the row", async || server.number(ROWS_AWAITED).await >= waiting).await;
        }
        somebody.query_drop("COMMIT").await.unwrap();
        let mut inside = Vec::new();
        for asked in asked {
            inside.extend(asked.await.unwrap().ok());
        }
        assert_eq!(inside.len(), 1, "{kinds:?}");
        for guard in inside {
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_list_shows_each_of_those_who_hold_a_key() {
    let manager = manager(&tables_of_its_own(MariaDbServer::shared()).0).await;
    let mut held = Vec::new();
    for (key, kind) in
        [("a", TWO), ("b", LockKind::Shared), ("a", TWO), ("c", LockKind::Exclusive), ("d", TWO)]
    {
        held.push(request(&manager, key, kind).ttl(LONG).acquire().await.unwrap());
    }
    let mut shown = Vec::new();
    let mut locks = manager.list("*");
    while let Some(lock) = locks.next().await {
        let lock = lock.unwrap();
        assert!(lock.holders.iter().all(|holder| holder.remaining.is_some()), "{lock:?}");
        shown.push((lock.key, lock.kind, lock.holders.len()));
    }
    let expected = [("a", TWO, 2), ("b", LockKind::Shared, 1), ("c", LockKind::Exclusive, 1), ("d", TWO, 1)];
    assert_eq!(shown, expected.map(|(key, kind, holders)| (key.to_owned(), kind, holders)));
    for guard in held {
        guard.release().await.unwrap();
    }
}
