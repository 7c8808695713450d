//! A client in another language that stands in our queue: docs/protocol.md is enough to write one.

use distlock_tests::{LockClient, RedisServer};

use crate::judge::{FOREIGN, KEY, TALLY, TTL, judge, start};
use crate::redis_py::python;

const PROGRAM: &str = include_str!("queue_client.py");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../distlock/src/backend/redis/scripts");

fn client(server: &RedisServer) -> LockClient {
    let port = server.port().to_string();
    let client = LockClient::spawn(python().args(["-u", "-c", PROGRAM, &port, SCRIPTS]));
    client.expect("ready");
    client
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python with the redis package: ./scripts/test.sh"]
async fn it_is_served_in_its_turn_and_hands_on_to_ours() {
    let server = RedisServer::start();
    let mut python = client(&server);
    let (stop, tasks) = start(&server);
    python.send(&format!("sections {KEY} {FOREIGN} {} {TALLY}", TTL.as_millis()));
    let foreign = tokio::task::spawn_blocking(move || {
        let sections = (0..FOREIGN).map(|_| python.expect("section").section("python")).collect::<Vec<_>>();
        (sections, python.expect("done").number("pushed"))
    });
    let (foreign, pushed) = foreign.await.unwrap();
    stop.send(true).unwrap();
    let mut ours = Vec::new();
    for task in tasks {
        ours.push(task.await.unwrap());
    }
    // Ours always wait for the key, so hardly any of its locks can have been free when it asked.
    assert!(pushed.is_some_and(|pushed| pushed > 0), "it was granted the lock by one of ours: {pushed:?}");
    judge(&server, ours, foreign).await;
}
