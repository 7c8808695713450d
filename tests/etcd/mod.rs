//! Tests that only etcd needs: sessions, leases, elections, compaction, users, TLS, and the queue of all kinds of
//! locks.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cost;
mod elections;
mod errors;
mod kinds;
mod leases;
mod sessions;
mod space;
mod tls;
mod together;
mod users;

mod kinds_faults {
    crate::each_store::kinds_faults!(distlock_tests::EtcdServers);
}

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use distlock::LockManager;
use distlock_tests::EtcdServers;

/// Much longer than any test runs.
const LONG: Duration = Duration::from_secs(3_600);

/// A manager on all members, whose session has this time-out.
async fn process(servers: &EtcdServers, session_timeout: &str) -> LockManager {
    let url = format!("{}?session_timeout={session_timeout}&response_timeout=1s", servers.url());
    LockManager::connect(&url).await.expect("the members answer")
}

/// The revision of the store: the number of transactions that wrote something since its creation.
fn revision(servers: &EtcdServers) -> u64 {
    let said = servers.ctl(&["get", "nothing", "-w", "fields"]);
    said.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap().parse().unwrap()
}

/// The number of transactions that the member has received.
fn transactions(servers: &EtcdServers) -> u64 {
    let mut stream = TcpStream::connect(servers.address(0)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let name = "grpc_server_msg_received_total{grpc_method=\"Txn\",";
    let count = metrics.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next());
    count.expect("etcd counts requests").parse().unwrap()
}
