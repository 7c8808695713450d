//! The first process creates the tables and functions.

use std::time::Duration;

use distlock::{LockError, LockManager};
use distlock_fixtures::PostgresServer;
use distlock_tests::eventually;

use crate::each_store::{LONG, refusal};
use crate::postgres::{in_schema, manager};

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_install_it_at_the_same_time() {
    let server = PostgresServer::shared();
    for _ in 0..5 {
        let schema = PostgresServer::unused_schema();
        let mut connecting = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let url = in_schema(&server.url(), &schema);
            connecting.spawn(async move { LockManager::builder().url(url).connect().await });
        }
        while let Some(manager) = connecting.join_next().await {
            let manager = manager.unwrap().unwrap();
            let guard = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn schemas_do_not_know_of_each_other() {
    let server = PostgresServer::shared();
    let (one, two) = (PostgresServer::unused_schema(), PostgresServer::unused_schema());
    let (one, two) = (manager(&server.url(), &one).await, manager(&server.url(), &two).await);
    let _one = one.lock("k").acquire().await.unwrap();
    let _two = two.lock("k").no_wait().acquire().await.unwrap();
}

#[tokio::test]
async fn who_may_not_make_it_is_told_the_sql_which_is_enough() {
    let server = PostgresServer::start();
    server.run("CREATE ROLE app LOGIN").await;
    let url = server.url_as("app", "");
    let text = refusal(&url).await.to_string();
    assert!(text.contains("may not create") && text.contains("GRANT"), "{text}");
    assert!(text.contains("distlock sql postgres --schema 'distlock'"), "{text}");
    // A repetition does no harm.
    for _ in 0..2 {
        server.run(&distlock_postgres::sql("distlock").unwrap()).await;
    }
    let text = refusal_to_lock(&url).await;
    assert!(text.contains("GRANT USAGE ON SCHEMA"), "{text}");
    server.run("GRANT USAGE ON SCHEMA distlock TO app").await;
    let text = refusal_to_lock(&url).await;
    assert!(text.contains("GRANT"), "{text}");
    server.run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app").await;
    let manager = LockManager::builder().url(&url).connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}

async fn refusal_to_lock(url: &str) -> String {
    let manager = LockManager::builder().url(url).connect().await.unwrap();
    let error = manager.lock("k").acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn a_schema_that_is_made_already_needs_no_permission_on_the_database() {
    let server = PostgresServer::start();
    server.run("CREATE ROLE app LOGIN; CREATE SCHEMA mine AUTHORIZATION app").await;
    let manager = manager(&server.url_as("app", ""), "mine").await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}

/// The functions of version 0.1.0.
const REVISION_1: &str = include_str!("revision_1.sql");

/// Creates a schema like version 0.1.0.
async fn earlier(server: &PostgresServer, schema: &str) {
    let sql = REVISION_1.replace("@.", &format!("{schema}."));
    server.run(&format!("CREATE SCHEMA {schema}; {sql}")).await;
}

async fn revision(server: &PostgresServer, schema: &str) -> i32 {
    server.rows(&format!("SELECT {schema}.installed_1()")).await[0].get(0)
}

/// A request of a client that only knows revision 1.
async fn asks(server: &PostgresServer, schema: &str, key: &str, rest: &str) -> String {
    let sql = format!("SELECT {schema}.acquire_1('{key}', {rest}, NULL, 0, 0, 'infinity', NULL)");
    server.rows(&sql).await[0].get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_an_earlier_version_are_replaced_and_what_is_held_stays_held() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    earlier(server, &schema).await;
    assert_eq!(asks(server, &schema, "held", "'dl1:x:1', 600000, 0, 5").await, "acquired 1");
    for (who, ttl) in [("dl1:x:2", 60_000), ("dl1:x:3", 600_000)] {
        let said = asks(server, &schema, "read", &format!("'{who}', {ttl}, -1, 0")).await;
        assert_eq!(said, "acquired 0");
    }
    // Two minutes pass. The first reader has gone, and the row of the key has ended with it.
    let pass = format!(
        "UPDATE {schema}.lock_1 SET expires = expires - interval '2 minutes' WHERE key = 'read';
        UPDATE {schema}.holder_1 SET expires = expires - interval '2 minutes'"
    );
    server.run(&pass).await;
    assert_eq!(revision(server, &schema).await, 1);
    let manager = manager(&server.url(), &schema).await;
    assert_eq!(revision(server, &schema).await, 2);
    for key in ["held", "read"] {
        let error = manager.lock(key).no_wait().acquire().await.unwrap_err();
        assert!(error.is_busy(), "{error:?}");
    }
    let held = manager.inspect("held").await.unwrap().unwrap();
    assert_eq!(held.holder, "dl1:x:1");
    let read = manager.inspect("read").await.unwrap().unwrap();
    assert_eq!((&*read.holder, read.holders.len()), ("dl1:x:3", 1));
    let (mut list, mut listed) = (manager.list("*"), Vec::new());
    while let Some(lock) = list.next().await {
        listed.push(lock.unwrap().key);
    }
    assert_eq!(listed, ["held", "read"]);
    assert!(manager.force_release("held").await.unwrap());
    let next = manager.lock("held").fenced().acquire().await.unwrap();
    assert_eq!(next.fencing_token().unwrap().get(), 6);
    // These functions also work for a client that only knows revision 1.
    assert!(asks(server, &schema, "held", "'dl1:x:4', 600000, 0, 1").await.starts_with("busy "));
    next.release().await.unwrap();
    let said = asks(server, &schema, "held", "'dl1:x:4', 600000, 0, 1").await;
    let token: u64 = said.strip_prefix("acquired ").unwrap().parse().unwrap();
    assert!(token > 6, "{said}");
}

/// So clients that only know revision 1 work with later functions.
#[tokio::test]
async fn every_function_of_the_first_revision_is_there_with_its_parameters() {
    let server = PostgresServer::shared();
    let (first, now) = (PostgresServer::unused_schema(), PostgresServer::unused_schema());
    earlier(server, &first).await;
    drop(manager(&server.url(), &now).await);
    let functions = async |schema: &str| {
        let sql = format!(
            "SELECT p.proname || replace(pg_get_function_identity_arguments(p.oid), '{schema}', '')
                || pg_get_function_result(p.oid) FROM pg_proc p WHERE pronamespace = '{schema}'::regnamespace"
        );
        let rows = server.rows(&sql).await;
        rows.iter().map(|row| row.get(0)).collect::<std::collections::BTreeSet<String>>()
    };
    let (first, now) = (functions(&first).await, functions(&now).await);
    assert!(first.len() > 20 && first.is_subset(&now), "{:?}", first.difference(&now));
}

#[tokio::test]
async fn functions_of_a_later_version_are_left_alone() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    drop(manager(&server.url(), &schema).await);
    let later = format!(
        "CREATE OR REPLACE FUNCTION {schema}.installed_1() RETURNS integer LANGUAGE sql AS 'SELECT 99';
        CREATE OR REPLACE FUNCTION {schema}.ms_1(ms bigint) RETURNS interval LANGUAGE sql IMMUTABLE
            AS 'SELECT make_interval(secs => ms / 1000.0)'"
    );
    server.run(&later).await;
    manager(&server.url(), &schema).await.lock("k").acquire().await.unwrap().release().await.unwrap();
    let sql = format!("SELECT prosrc FROM pg_proc WHERE oid = '{schema}.ms_1'::regproc");
    assert!(server.rows(&sql).await[0].get::<_, String>(0).contains("make_interval"));
    assert_eq!(revision(server, &schema).await, 99);
}

/// The URL of a role that may not replace them.
pub(super) async fn with_outdated_functions(server: &PostgresServer) -> String {
    earlier(server, "distlock").await;
    let grants = "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA distlock TO app;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app";
    server.run(grants).await;
    server.url_as("app", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_replace_earlier_functions_acquires_no_lock_for_which_they_are_unsafe() {
    let server = PostgresServer::start();
    let app = manager(&with_outdated_functions(&server).await, "distlock").await;
    app.lock("k").acquire().await.unwrap().release().await.unwrap();
    let is_refused = |error: LockError| {
        assert!(error.is_unavailable() && error.to_string().contains("distlock --url"), "{error}");
    };
    for request in [app.lock("k").shared(), app.lock("k").max_holders(2), app.lock_all(["a", "b"]).shared()] {
        is_refused(request.acquire().await.unwrap_err());
    }
    // A take-over does not end the connections, on which everything else depends.
    let backends = server.backends().await;
    let ticket = app.lock("handed over").acquire().await.unwrap().hand_over().await.unwrap();
    is_refused(app.take_over(&ticket).acquire().await.unwrap_err());
    assert_eq!(server.backends().await, backends);
    // The owner.
    drop(manager(&server.url(), "distlock").await);
    let app = manager(&server.url_as("app", ""), "distlock").await;
    app.lock("k").shared().acquire().await.unwrap().release().await.unwrap();
}

/// Two programs run when a migration or a restored backup removes all tables.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_dropped_is_made_again_while_programs_work() {
    let server = PostgresServer::start();
    let mut managers = Vec::new();
    for _ in 0..2 {
        // With the default time-outs.
        managers.push(LockManager::builder().url(server.url()).connect().await.unwrap());
    }
    for sql in
        ["DROP SCHEMA distlock CASCADE", "DROP TABLE distlock.lock_1 CASCADE", "DROP TABLE distlock.holder_1"]
    {
        let held = managers[0].lock("held").ttl(Duration::from_secs(2)).acquire().await.unwrap();
        server.run(sql).await;
        let (mut workers, mut refused) = (tokio::task::JoinSet::new(), 0);
        for manager in managers.iter().cycle().take(8) {
            let manager = manager.clone();
            workers.spawn(async move {
                let (mut sections, mut refused) = (0, 0);
                while sections < 20 {
                    match manager.lock("k").shared().wait(LONG).acquire().await {
                        Ok(guard) => sections += usize::from(guard.release().await.is_ok()),
                        Err(error) => {
                            assert!(error.is_unavailable(), "{error:?}");
                            refused += 1;
                        }
                    }
                }
                refused
            });
        }
        while let Some(of_one) = workers.join_next().await {
            refused += of_one.unwrap();
        }
        assert!(refused <= 100, "{refused} requests were refused");
        if !sql.contains("holder_1") {
            // No process holds a lock any longer, and the former holder notices it.
            held.lost().await;
        }
        drop(held);
    }
    eventually("nothing is left", async || server.residue("distlock", "").await.is_empty()).await;
}
