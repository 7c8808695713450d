//! How operations are sent.

use std::sync::Arc;

use super::{TTL, enter, leave, renew, set};

use crate::backend::redis::test_operations::{AnyOp, AnyReply};
use crate::backend::redis::test_server::{Rig, TestServer, block_on, finish};
use crate::backend::{AcquireMode, AcquireReply, Backend, ReleaseReply, RenewReply};

#[test]
fn scripts_are_loaded_with_the_link_and_again_after_a_flush() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("CONFIG RESETSTAT");
    rig.send("k", enter(1, AcquireMode::Try)).unwrap();
    let stats: String = server.run("INFO commandstats");
    assert!(!stats.contains("cmdstat_eval:"), "loaded already: {stats}");
    server.run::<()>("SCRIPT FLUSH");
    assert!(matches!(rig.send("k", renew(1, TTL)), Ok(RenewReply::Renewed { .. })));
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Try)), Ok(AcquireReply::AlreadyHeld { .. })));
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    assert!(!block_on(rig.backend.force_release(&Arc::from("k"))).unwrap());
    server.run::<()>("CONFIG RESETSTAT");
    rig.send("k", enter(2, AcquireMode::Try)).unwrap();
    assert_eq!(rig.send("k", leave(2)).unwrap(), ReleaseReply::Released { gap: false });
    let stats: String = server.run("INFO commandstats");
    assert!(!stats.contains("cmdstat_eval:"), "learned from the text: {stats}");
}

#[test]
fn a_batch_answers_every_operation_in_order_even_after_a_flush() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("SCRIPT FLUSH");
    let mut batch = Vec::new();
    for number in 0..1_200 {
        batch.push((Arc::from(format!("k{number}")), AnyOp::from(set(number))));
        batch.push((Arc::from(format!("k{number}")), renew(number, TTL).into()));
    }
    batch.push((Arc::from("k7"), leave(7).into()));
    batch.push((Arc::from("k7"), enter(5_000, AcquireMode::Try).into()));
    let results = block_on(rig.backend.send_batch(batch));
    assert_eq!(results.len(), 2_402);
    for pair in results[..2_400].chunks(2) {
        assert!(matches!(pair[0], Ok(AnyReply::Acquire(AcquireReply::Acquired { .. }))), "{pair:?}");
        assert!(matches!(pair[1], Ok(AnyReply::Renew(RenewReply::Renewed { .. }))), "{pair:?}");
    }
    let released = AnyReply::Release(ReleaseReply::Released { gap: false });
    assert_eq!(*results[2_400].as_ref().unwrap(), released);
    assert!(matches!(results[2_401], Ok(AnyReply::Acquire(AcquireReply::Acquired { .. }))));
}

#[test]
fn operations_are_executed_in_the_order_of_their_first_poll() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    for number in 0..200 {
        let first = rig.begin("k", enter(number, AcquireMode::Try));
        let second = rig.begin("k", leave(number));
        assert!(matches!(first.join().unwrap(), Ok(AcquireReply::Acquired { .. })));
        assert_eq!(second.join().unwrap().unwrap(), ReleaseReply::Released { gap: false });
    }
}

#[test]
fn an_operation_can_be_awaited_on_another_runtime() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let sending = rig.backend.send_acquire(&Arc::from("k"), set(1).into());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(async { finish(sending) }).is_ok());
}

#[test]
fn the_script_takes_the_place_of_set_where_the_server_does_not_know_get() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.backend.pretend_old_server();
    assert!(matches!(
        rig.send("k", set(1)),
        Ok(AcquireReply::Acquired { server_time: Some(_), fence: None })
    ));
    assert!(matches!(rig.send("k", set(2)), Ok(AcquireReply::Busy { server_time: Some(_), .. })));
}
