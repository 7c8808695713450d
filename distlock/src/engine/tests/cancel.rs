use super::*;

#[test]
fn the_last_waiter_leaves_the_queue_at_once() {
    let mut desk = Desk::new();
    let ticket = desk.acquire(0, fenced());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    desk.cancel(ticket);
    assert_eq!(desk.next_leave().0.token, token);
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn the_entry_belongs_to_the_process() {
    let mut desk = Desk::new();
    let first = desk.acquire(0, fenced());
    desk.acquire(1, fenced());
    let (context, ..) = desk.next_enter();
    desk.busy(context);
    desk.cancel(first);
    desk.quiet();
}

#[test]
fn an_attempt_under_way_is_undone() {
    let mut desk = Desk::new();
    let ticket = desk.acquire(0, want());
    let (context, _) = desk.next();
    desk.cancel(ticket);
    assert_eq!(desk.next_leave().0.token, context.token);
}

#[test]
fn an_attempt_whose_outcome_is_unknown_is_undone() {
    let mut desk = Desk::new();
    let ticket = desk.acquire(0, want());
    let (context, _) = desk.next();
    let token = context.token;
    desk.fails(context, Failure::Unknown);
    desk.cancel(ticket);
    assert_eq!(desk.next_leave().0.token, token);
}

#[test]
fn what_was_never_sent_is_not_undone() {
    let mut desk = Desk::new();
    desk.down();
    let ticket = desk.acquire(0, fenced());
    let (context, ..) = desk.next_enter();
    desk.fails(context, Failure::NotSent);
    desk.cancel(ticket);
    desk.quiet();
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn a_late_acquisition_that_nobody_wants_is_given_back() {
    let mut desk = Desk::new();
    let ticket = desk.acquire(0, want());
    let (context, _) = desk.next();
    let token = context.token;
    desk.cancel(ticket);
    desk.next_leave();
    desk.fresh(context);
    assert_eq!(desk.next_leave().0.token, token);
}

/// A script that the server did not know is sent a second time and loses its place in the order.
#[test]
fn an_attempt_that_was_undone_and_may_be_applied_later_is_undone_once_more() {
    let mut desk = Desk::new();
    let ticket = desk.acquire(0, fenced());
    let (attempt, ..) = desk.next_enter();
    desk.cancel(ticket);
    let (undone, _) = desk.next_leave();
    desk.answer(undone, Ok(ReleaseReply::NotHeld));
    desk.quiet();
    let token = attempt.token;
    desk.fails(attempt, Failure::Unknown);
    assert_eq!(desk.next_leave().0.token, token);
}
