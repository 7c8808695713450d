//! PostgreSQL: a client process is paused (SIGSTOP) for longer than its lease, while the others continue.

use distlock_tests::PostgresServer;

use crate::{
    load::{Keys, Load, turn},
    row,
};

#[tokio::test(flavor = "multi_thread")]
async fn postgres_client_stopped() {
    let _turn = turn().await;
    let server = PostgresServer::start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    load.one_stands_still();
    load.works();
    let fault = "a client SIGSTOPped for longer than its lease";
    row::of_postgres(load, &server, fault, "postgres_client_stopped").await;
}
