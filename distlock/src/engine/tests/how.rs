//! How a lock came to its holder, and that a wait at the store is reported.

use super::*;
use crate::lease_cell::How;
use crate::protocol::LockKind;

#[test]
fn a_free_lock_is_acquired_as_free_and_handed_on_as_such() {
    let mut desk = Desk::new();
    let first = desk.hold(want());
    assert_eq!(first.how, How::Free);
    desk.acquire(1, want());
    assert_eq!(desk.release(&first), ReleaseStarted::HandedOn);
    assert_eq!(desk.acquired().how, How::HandedOn);
    assert!(desk.queued.is_empty(), "nobody else was there");
}

#[test]
fn a_wait_is_reported_once_and_a_grant_is_acquired_as_granted() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    assert_eq!(desk.queued, [1]);
    desk.sleep();
    let (context, ..) = desk.next_enter();
    desk.busy(context);
    assert_eq!(desk.queued, [1], "once for the attempt");
    desk.grant(token, desk.server_time(), None);
    assert_eq!(desk.acquired().how, How::Granted);
}

#[test]
fn a_grant_that_is_confirmed_is_acquired_as_granted() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    let granted = desk.server_time();
    desk.pass(ms(1_600));
    desk.grant(token, granted, None);
    let (context, ..) = desk.next_enter();
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    assert_eq!(desk.acquired().how, How::Granted);
}

#[test]
fn a_lock_that_a_waiter_finds_free_is_acquired_as_asked() {
    let mut desk = Desk::new();
    desk.queue(want());
    desk.sleep();
    let (context, ..) = desk.next_enter();
    desk.fresh(context);
    assert_eq!(desk.acquired().how, How::Asked);
}

#[test]
fn an_answer_to_a_repeated_command_is_acquired_as_free() {
    let mut desk = Desk::new();
    desk.acquire(0, want());
    let (context, _) = desk.next();
    desk.fails(context, Failure::Unknown);
    desk.sleep();
    let (context, ..) = desk.next_enter();
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    assert_eq!(desk.acquired().how, How::Free);
}

#[test]
fn a_reader_that_shares_a_lease_has_joined() {
    let mut desk = Desk::new();
    let shared = Want { kind: LockKind::Shared, ..want() };
    let first = desk.hold(shared.clone());
    assert_eq!((first.how, first.kind), (How::Free, LockKind::Shared));
    desk.acquire(1, shared);
    assert_eq!(desk.acquired().how, How::Joined);
}
