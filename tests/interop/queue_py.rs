//! A client in another language that waits in the queue of distlock. docs/protocol.md is enough to write one.

use distlock_tests::{LockClient, RedisServer};

use crate::interop::judge::contest;
use crate::interop::redis_py::python;

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
    let pushed = contest(&server, client(&server), "python").await.number("pushed");
    // The distlock tasks always wait for the key, so hardly any of its locks can have been free when it asked.
    assert!(pushed.is_some_and(|pushed| pushed > 0), "it was granted the lock by one of ours: {pushed:?}");
}
