//! Statements are prepared only on a connection that keeps its session. If the server no longer knows them, no command
//! is lost or executed twice.

use std::collections::HashSet;

use distlock::LockManager;
use distlock_fixtures::{PgBouncer, PostgresServer};

use crate::postgres::{in_schema, manager};

const SECTIONS: u64 = 12;

/// Makes the sessions that change locks record how often they have used their prepared statements.
async fn observe(server: &PostgresServer, schema: &str) {
    let sql = format!(
        "CREATE TABLE {schema}.used (times bigint);
        CREATE FUNCTION {schema}.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO {schema}.used
                SELECT coalesce(sum(generic_plans + custom_plans), 0) FROM pg_prepared_statements;
            RETURN NULL;
        END $$;
        CREATE TRIGGER look AFTER UPDATE ON {schema}.lock_1 FOR EACH ROW EXECUTE FUNCTION {schema}.look()"
    );
    server.run(&sql).await;
}

/// How often the prepared statements of one session were used since the last question.
async fn used(server: &PostgresServer, schema: &str) -> i64 {
    let sql = format!("WITH used AS (DELETE FROM {schema}.used RETURNING times) SELECT max(times) FROM used");
    server.rows(&sql).await[0].get(0)
}

/// Runs sections one after the other. Each uses the same number of tokens, so nothing was executed twice.
async fn work(manager: &LockManager) {
    let mut tokens = Vec::new();
    for _ in 0..SECTIONS {
        let guard = manager.lock("k").fenced().acquire().await.unwrap();
        tokens.push(guard.fencing_token().unwrap().get());
        guard.release().await.unwrap();
    }
    let steps: HashSet<u64> = tokens.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps.len(), 1, "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_used_on_every_connection_to_the_server_and_after_a_reconnect() {
    let server = PostgresServer::start();
    let url = format!("{}?connections=3", server.url());
    let manager = manager(&url, "distlock").await;
    observe(&server, "distlock").await;
    work(&manager).await;
    assert!(used(&server, "distlock").await >= 8);
    server.terminate_clients().await;
    distlock_tests::eventually("it is connected again", async || manager.inspect("k").await.is_ok()).await;
    work(&manager).await;
    assert!(used(&server, "distlock").await >= 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_keeps_sessions_is_as_good_as_the_server() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::with(&server, &["pool_mode = session"]);
    let manager = manager(&pooler.url(), "distlock").await;
    observe(&server, "distlock").await;
    work(&manager).await;
    assert!(used(&server, "distlock").await >= 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_that_lends_sessions_nothing_is_prepared() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::to(&server);
    let direct = server.url().replace("://", "%3A%2F%2F").replace('@', "%40");
    for listen in ["off", &direct] {
        let manager = manager(&format!("{}?listen={listen}", pooler.url()), "distlock").await;
        if listen == "off" {
            observe(&server, "distlock").await;
        }
        work(&manager).await;
        assert_eq!(used(&server, "distlock").await, 0, "{listen}");
    }
}

async fn first_some<T>(mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..20 {
        if let Some(found) = attempt().await {
            return found;
        }
    }
    panic!("not even at the twentieth attempt");
}

/// One URL names both: notifications arrive, although commands go through the pooler.
#[tokio::test(flavor = "multi_thread")]
async fn the_connection_of_the_commands_itself_has_to_show_that_it_keeps_its_session() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::with(&server, &["pool_mode = transaction", "max_client_conn = 1"]);
    let url = format!("postgres://admin@{},{}/postgres", pooler.address(), server.address());
    // The pooler may still count the connection of the readiness check. In that case, the commands do not go through
    // it.
    let url = in_schema(&url, "distlock");
    let connecting = async || LockManager::connect(&url).await.ok();
    let manager = first_some(connecting).await;
    observe(&server, "distlock").await;
    work(&manager).await;
    assert_eq!(used(&server, "distlock").await, 0);
    // One connection is the process's own, which listens. The other one belongs to the pooler.
    let clients = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'distlock%'";
    assert!(!server.rows(clients).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_the_server_has_forgotten_are_sent_as_text() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let manager = manager(&server.url(), &schema).await;
    work(&manager).await;
    let forget = format!(
        "CREATE FUNCTION {schema}.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            EXECUTE 'DEALLOCATE ALL';
            RETURN NULL;
        END $$;
        CREATE TRIGGER forget AFTER UPDATE ON {schema}.lock_1 FOR EACH ROW EXECUTE FUNCTION {schema}.forget()"
    );
    server.run(&forget).await;
    work(&manager).await;
    assert_eq!(server.residue(&schema, "").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_return_another_type_than_they_did_are_called_anew() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let manager = manager(&server.url(), &schema).await;
    work(&manager).await;
    let replace = format!(
        "DO $$ DECLARE
            definition text := pg_get_functiondef('{schema}.acquire_1'::regproc);
        BEGIN
            DROP FUNCTION {schema}.acquire_1;
            EXECUTE replace(definition, 'RETURNS text', 'RETURNS varchar');
        END $$"
    );
    server.run(&replace).await;
    work(&manager).await;
    assert_eq!(server.residue(&schema, "").await, [""; 0]);
}
