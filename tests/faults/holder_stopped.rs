//! SIGSTOP of a holder's process for longer than its ttl: when it resumes, it notices that it has lost its lock.

use std::time::Duration;

use distlock_tests::{LockClient, RedisServer, residue, shared_clock};

use super::connect;

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_holder_has_lost_when_it_goes_on_and_harms_nobody() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let mut holder = LockClient::connect(CLIENT, &server.url());
    let acquired = holder.ask("acquire k 1000 0 fenced");
    holder.stop();
    let guard = manager.lock("k").wait(Duration::from_secs(60)).fenced().acquire().await.unwrap();
    let entered = shared_clock();
    assert!(guard.fencing_token().unwrap().get() > acquired.number("fence").unwrap());
    holder.cont();
    assert!(holder.expect("lost").time("at") > Duration::ZERO);
    let released = holder.ask("release k");
    assert_eq!((released.name(), released.text("kind")), ("error", "Lost"), "{released:?}");
    assert!(shared_clock() > entered);
    guard.check().expect("the late release was not ours");
    guard.release().await.unwrap();
    residue::none(&server).await;
}
