//! A client process stands still (SIGSTOP) for longer than its lease or its session, while the others go on.

use distlock_tests::{EtcdServers, PostgresServer};

use crate::{
    etcd_killed,
    load::{Keys, Load, turn},
    row,
};

const FAULT: &str = "a client SIGSTOPped for longer than its lease";

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_stopped() {
    let _turn = turn().await;
    let servers = EtcdServers::three();
    let mut load = Load::start(&etcd_killed::url(&servers), Keys::of("k"));
    load.fault();
    load.one_stands_still();
    load.works();
    let outcome = load.finish(&[]).await;
    servers.has_no_locks("distlock/");
    row::print("etcd, three members", FAULT, "etcd_client_stopped", &outcome);
    outcome.assert_exclusive();
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_client_stopped() {
    let _turn = turn().await;
    let server = PostgresServer::start();
    let mut load = Load::start(&server.url(), Keys::of("k"));
    load.fault();
    load.one_stands_still();
    load.works();
    row::of_postgres(load, &server, FAULT, "postgres_client_stopped").await;
}
