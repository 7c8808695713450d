//! PostgreSQL: the server is killed, and restarts with its data, normally or in recovery.

use distlock_tests::PostgresServer;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn postgres_server_killed() {
    let _turn = turn().await;
    let mut server = PostgresServer::start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    server.kill9();
    load.fails();
    server.restart();
    load.works();
    let fault = "kill -9, restarted when every process had failed";
    row::of_postgres(load, &server, fault, "postgres_server_killed").await;
}

/// The server accepts all clients but no writes. The client detects this.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_server_in_recovery() {
    let _turn = turn().await;
    let mut server = PostgresServer::start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    server.restart_in_recovery();
    load.fails();
    server.promote().await;
    load.works();
    let fault = "kill -9, restarted in recovery, promoted when every process had failed";
    row::of_postgres(load, &server, fault, "postgres_server_in_recovery").await;
}
