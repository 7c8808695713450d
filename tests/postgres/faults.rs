//! Connections and servers end, stop and return. Two holders never believe in one lock at the same time, tokens rise,
//! and no lock is left.

use std::time::Duration;

use distlock::LockManager;
use distlock_fixtures::PostgresServer;
use distlock_tests::eventually;

use crate::each_store::{LONG, at_work, judge};
use crate::postgres::manager;
use crate::postgres::schema::with_outdated_functions;

crate::each_store::faults!(PostgresServer);

#[tokio::test(flavor = "multi_thread")]
async fn connections_ended_by_the_administrator() {
    let (server, fleet) = at_work::<PostgresServer>().await;
    for _ in 0..10 {
        assert!(server.terminate_clients().await > 0);
        fleet.works().await;
    }
    judge(&server, fleet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_keeps_its_lock_over_a_restart_and_the_next_gets_it_after() {
    let mut server = PostgresServer::start();
    let (one, other) = (manager(&server.url(), "distlock").await, manager(&server.url(), "distlock").await);
    let guard = one.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(LONG).fenced().acquire());
    distlock_tests::until_waiting(&one, "k", 1).await;
    server.restart();
    eventually("it is connected again", async || one.inspect("k").await.is_ok()).await;
    guard.extend(LONG * 2).await.unwrap();
    let token = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fencing_token().unwrap() > token);
    next.release().await.unwrap();
}

/// A leader publishes by a statement that does not call settle_1.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_an_administrator_locks_delays_no_other_command_for_long() {
    let server = PostgresServer::start();
    let one = manager(&server.url(), "distlock").await;
    let candidate = one.leader("office").value("10.0.0.7:80");
    candidate.run(async |_| ()).await.unwrap();
    let administrator = server.admin().await;
    administrator.batch_execute("BEGIN; SELECT FROM distlock.holder_1 FOR UPDATE").await.unwrap();
    let other = one.leader("office").value("10.0.0.8:80");
    let next = tokio::spawn(async move { other.run(async |_| ()).await });
    let waiting =
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'distlock%'";
    let is_waiting = async || !administrator.query(waiting, &[]).await.unwrap().is_empty();
    let backends = server.backends().await;
    eventually("it waits for the row", is_waiting).await;
    // The statement ends although the row stays locked, and another command does not find a new connection.
    eventually("it no longer waits", async || !is_waiting().await).await;
    one.lock("elsewhere").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(server.backends().await, backends);
    assert!(one.health().connected);
    administrator.batch_execute("COMMIT").await.unwrap();
    next.await.unwrap().unwrap();
}

/// Their renewals are one command, which fails as long as one row is locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_stays_locked_takes_no_other_lease_with_it() {
    let server = PostgresServer::start();
    let one = manager(&server.url(), "distlock").await;
    let acquire = async |key: &str| one.lock(key).ttl(Duration::from_secs(9)).acquire().await.unwrap();
    // Without renewals, the others would end first. The locked one is renewed together with the one before it.
    let others = [acquire("b").await, acquire("c").await];
    let locked = acquire("a").await;
    let administrator = server.admin().await;
    let sql = "BEGIN; SELECT FROM distlock.lock_1 WHERE key = 'a' FOR UPDATE";
    administrator.batch_execute(sql).await.unwrap();
    assert!(locked.lost().await.is_lost());
    others.iter().for_each(|other| other.check().unwrap());
    administrator.batch_execute("COMMIT").await.unwrap();
}

/// If commits are not awaited, a crash may lose locks, but no token is used twice.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_over_crashes_although_commits_are_not_awaited() {
    let server = hasty_server();
    let url = server.url();
    tokens_rise_over_crashes(server, url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_over_crashes_with_outdated_functions_too() {
    let server = hasty_server();
    let url = with_outdated_functions(&server).await;
    tokens_rise_over_crashes(server, url).await;
}

/// Data that no commit waits for is written after ten seconds.
fn hasty_server() -> PostgresServer {
    PostgresServer::with(&["wal_writer_delay=10s", "autovacuum=off"])
}

async fn tokens_rise_over_crashes(mut server: PostgresServer, url: String) {
    let url = format!("{url}?synchronous_commit=off");
    let (one, other) = (manager(&url, "distlock").await, manager(&url, "distlock").await);
    server.run("CHECKPOINT").await;
    let mut last = 0;
    for round in 0..4 {
        let ttl = Duration::from_secs(2);
        let request = |manager: &LockManager| manager.lock("k").ttl(ttl).wait(LONG).fenced();
        let guard = request(&one).acquire().await.unwrap();
        let token = guard.fencing_token().unwrap().get();
        assert!(token > last, "{token} after {last}");
        last = token;
        // Every other time, by a hand-off.
        if round % 2 == 1 {
            let waiter = tokio::spawn(request(&other).acquire());
            distlock_tests::until_waiting(&one, "k", 1).await;
            guard.release().await.unwrap();
            let next = waiter.await.unwrap().unwrap();
            last = next.fencing_token().unwrap().get();
        }
        server.restart();
    }
    let guard = one.lock("k").wait(LONG).fenced().acquire().await.unwrap();
    let token = guard.fencing_token().unwrap().get();
    assert!(token > last, "{token} after {last}");
}
