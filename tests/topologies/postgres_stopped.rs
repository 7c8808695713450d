//! PostgreSQL: the server is stopped (SIGSTOP), and resumes.

use distlock_tests::PostgresServer;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn postgres_server_stopped() {
    let _turn = turn().await;
    let server = PostgresServer::start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    server.stop();
    load.fails();
    server.cont();
    load.works();
    let fault = "SIGSTOP, SIGCONT when every process had failed";
    row::of_postgres(load, &server, fault, "postgres_server_stopped").await;
}
