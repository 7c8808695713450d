//! PostgreSQL: the administrator ends connections.

use distlock_tests::PostgresServer;

use crate::{
    load::{Keys, Load, turn},
    row,
};

const TIMES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn postgres_connections_ended() {
    let _turn = turn().await;
    let server = PostgresServer::start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    for _ in 0..TIMES {
        assert!(server.terminate_clients().await > 0);
        load.works();
    }
    let fault = "all connections ended by the administrator, five times";
    row::of_postgres(load, &server, fault, "postgres_connections_ended").await;
}
