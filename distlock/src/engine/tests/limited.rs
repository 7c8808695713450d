//! Limited locks: every holder has its own place on the server.

use super::*;
use crate::protocol::LockKind;

fn limited() -> Want {
    Want { kind: LockKind::Limited { max_holders: 2 }, ..want() }
}

const MARKER: &str = "dl1:p:2";

#[test]
fn every_holder_has_its_own_lease() {
    let mut desk = Desk::new();
    let first = desk.hold(limited());
    desk.acquire(1, limited());
    let (context, mode, _) = desk.next_enter();
    assert_eq!(mode, AcquireMode::Wait);
    desk.fresh(context);
    assert_ne!(desk.acquired().token, first.token);
}

#[test]
fn a_place_is_handed_on_here_and_the_attempt_given_up() {
    let mut desk = Desk::new();
    let first = desk.hold(limited());
    desk.acquire(1, limited());
    let (context, ..) = desk.next_enter();
    let attempt = context.token;
    desk.busy_behind(context, MARKER, Place::Behind);
    assert_eq!(desk.release(&first), ReleaseStarted::HandedOn);
    assert_eq!(desk.acquired().token, first.token);
    assert_eq!(desk.next_leave().0.token, attempt);
    desk.quiet();
}

/// Without this, the attempt's queue entry was lost and never granted.
#[test]
fn a_place_that_does_not_suit_goes_back_and_the_attempt_goes_on() {
    let mut desk = Desk::new();
    let first = desk.hold(limited());
    desk.acquire(1, Want { renewal: Renewal::Never, ttl: ms(20_000), ..limited() });
    let (context, ..) = desk.next_enter();
    let attempt = context.token;
    desk.busy_behind(context, MARKER, Place::Behind);
    desk.release(&first);
    desk.nobody_is_done();
    assert_eq!(desk.next_leave().0.token, first.token);
    desk.quiet();
    assert!(desk.engine.look(&desk.key, |machine| machine.knows(&desk.key, attempt)));
}

#[test]
fn the_first_who_may_be_out_is_waited_for() {
    let mut desk = Desk::new();
    desk.acquire(0, limited());
    let (context, ..) = desk.next_enter();
    let server_time = Some(desk.server_time());
    let remaining = Remaining::For(ms(500));
    desk.answer(
        context,
        Ok(AcquireReply::Busy { server_time, holder: MARKER.into(), remaining, front: true }),
    );
    let waited = desk.sleep();
    assert!(waited >= ms(500) && waited <= ms(550), "{waited:?}");
    assert_eq!(desk.next_enter().1, AcquireMode::WaitAgain);
}

#[test]
fn another_kind_is_refused_at_once_where_it_is_known() {
    let mut desk = Desk::new();
    desk.hold(limited());
    for kind in [LockKind::Exclusive, LockKind::Shared, LockKind::Limited { max_holders: 3 }] {
        desk.acquire(1, Want { kind, ..want() });
        let (_, outcome) = desk.outcome();
        assert!(matches!(outcome, Outcome::WrongKind { .. }), "{outcome:?}");
    }
    desk.quiet();
}

/// Without this, the lock was later granted to the entry, while the waiter behind it waited.
#[test]
fn a_waiter_that_is_told_of_another_kind_leaves_the_queue() {
    let mut desk = Desk::new();
    desk.acquire(0, limited());
    let (context, ..) = desk.next_enter();
    desk.busy(context);
    desk.sleep();
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.answer(context, Ok(AcquireReply::WrongKind { found: "an exclusive lock".into() }));
    let (_, outcome) = desk.outcome();
    assert!(matches!(outcome, Outcome::WrongKind { .. }), "{outcome:?}");
    assert_eq!(desk.next_leave().0.token, token);
}
