//! Locks that are handed over and taken over: the holder is replaced on the store.

use super::*;
use crate::protocol::PushHint;

/// Takes over from another process.
fn replaces() -> Want {
    Want { replaces: Some("dl1:other:1".into()), ..want() }
}

fn hand_over(desk: &mut Desk, cell: &LeaseCell) -> ReleaseStarted {
    let (handed_over, effects) = desk.engine.on_key(desk.now, &cell.key, |step| step.hand_over(cell));
    desk.take(effects);
    handed_over
}

fn next_replace(desk: &mut Desk) -> (Sent, op::Replace) {
    match desk.next() {
        (sent, Command::Replace(_, op)) => (sent, op),
        (_, other) => panic!("{other:?} was sent instead of replace"),
    }
}

fn is_not_replaced(desk: &mut Desk, who: u32) {
    match desk.outcome() {
        (done, Outcome::NotReplaced) => assert_eq!(done, who),
        (who, other) => panic!("request {who}: {other:?}"),
    }
}

#[test]
fn nothing_is_released_and_nothing_is_kept() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    assert_eq!(hand_over(&mut desk, &cell), ReleaseStarted::HandedOn);
    desk.quiet();
    assert!(matches!(cell.peek(desk.now), CellState::Released));
    desk.pass(TTL * 2);
    desk.timer();
    desk.quiet();
}

#[test]
fn a_lease_that_lingers_is_not_kept_here() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { linger: Some(ms(5_000)), ..want() });
    hand_over(&mut desk, &cell);
    desk.acquire(1, want());
    let (sent, _) = desk.next();
    assert_ne!(sent.token, cell.token, "it asks the store");
    desk.nobody_is_done();
}

#[test]
fn who_waits_here_does_not_get_it() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.acquire(1, want());
    hand_over(&mut desk, &cell);
    let (sent, _) = desk.next();
    desk.nobody_is_done();
    desk.busy(sent);
    assert_eq!(desk.next_enter().1, AcquireMode::Wait);
    desk.nobody_is_done();
}

#[test]
fn what_is_lost_is_not_handed_over() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.pass(TTL * 2);
    assert!(matches!(hand_over(&mut desk, &cell), ReleaseStarted::WasLost(_)));
}

#[test]
fn it_asks_once_and_renews_from_then_on() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { fenced: true, ..replaces() });
    let (sent, op) = next_replace(&mut desk);
    assert_eq!((&*op.holder, op.ttl), ("dl1:other:1", TTL));
    assert!(op.fences > 0);
    let server_time = Some(desk.server_time());
    desk.answer(sent, Ok(AcquireReply::Acquired { server_time, fence: Some(8) }));
    let cell = desk.acquired();
    assert_eq!(cell.fence, Some(8));
    desk.sleep();
    assert!(matches!(desk.next().1, Command::Renew(..)));
}

/// Clients may have asked the former holder for the lock.
#[test]
fn it_does_not_linger() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { linger: Some(ms(5_000)), ..replaces() });
    let (sent, _) = next_replace(&mut desk);
    assert_eq!(sent.token.linger(), None);
    desk.fresh(sent);
    let cell = desk.acquired();
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
}

#[test]
fn a_ticket_that_is_worthless_ends_the_request() {
    let mut desk = Desk::new();
    desk.acquire(0, replaces());
    let (sent, _) = next_replace(&mut desk);
    desk.answer(sent, Ok(AcquireReply::NotHeld));
    is_not_replaced(&mut desk, 0);
    desk.quiet();
}

#[test]
fn a_store_that_says_nothing_is_out_of_reach() {
    let mut desk = Desk::new();
    desk.acquire(0, replaces());
    let (first, _) = next_replace(&mut desk);
    desk.fails(first, Failure::Unknown);
    while desk.done.is_empty() {
        desk.sleep();
    }
    assert!(matches!(desk.outcome(), (0, Outcome::Unconfirmed(_))));
    let tokens: Vec<_> = desk.sent.iter().map(|(sent, _)| sent.token).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    assert!(matches!(desk.sent.back(), Some((_, Command::Release(..)))), "it may have been taken over");
}

#[test]
fn a_reply_that_was_lost_is_asked_for_again_with_the_same_token() {
    let mut desk = Desk::new();
    desk.acquire(0, replaces());
    let (first, _) = next_replace(&mut desk);
    desk.down();
    desk.up(EarlierCommands::Ended);
    let (again, op) = next_replace(&mut desk);
    assert_eq!((first.token, &*op.holder), (op.token, "dl1:other:1"));
    let server_time = Some(desk.server_time());
    desk.answer(again, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    desk.acquired();
}

#[test]
fn who_is_dropped_meanwhile_leaves_nothing_behind() {
    let mut desk = Desk::new();
    let ticket = desk.acquire(0, replaces());
    let (sent, _) = next_replace(&mut desk);
    desk.cancel(ticket);
    assert_eq!(desk.next_leave().0.token, sent.token);
}

/// A server may refuse its command alone, as one that does not know its script.
#[test]
fn only_it_ends_with_a_refusal() {
    let mut desk = Desk::new();
    desk.acquire(0, replaces());
    desk.acquire(1, want());
    let (sent, _) = next_replace(&mut desk);
    desk.fails(sent, Failure::Refused);
    assert!(matches!(desk.outcome(), (0, Outcome::Unavailable(_))), "the ticket can still be used");
    desk.nobody_is_done();
    let (context, op) = desk.next();
    assert!(matches!(op, Command::Acquire(_, Ask::Plain(_))), "{op:?}");
    desk.fresh(context);
    assert!(matches!(desk.outcome(), (1, Outcome::Acquired(_))));
}

/// The first command may have used the ticket.
#[test]
fn a_refusal_says_nothing_of_a_command_before_that_has_no_reply() {
    let mut desk = Desk::new();
    desk.acquire(0, replaces());
    let (first, _) = next_replace(&mut desk);
    desk.fails(first, Failure::Unknown);
    desk.sleep();
    let (second, _) = next_replace(&mut desk);
    desk.fails(second, Failure::Refused);
    assert!(matches!(desk.outcome(), (0, Outcome::Unconfirmed(_))));
    desk.next_leave();
}

/// Otherwise a ticket that was used would get the lock, which is free.
#[test]
fn it_is_no_acquisition_though_this_process_has_left_the_key_free() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.release(&cell);
    let (left, _) = desk.next_leave();
    desk.answer(left, Ok(ReleaseReply::Released { gap: true }));
    desk.acquire(1, replaces());
    let (sent, op) = next_replace(&mut desk);
    assert_eq!(&*op.holder, "dl1:other:1");
    desk.answer(sent, Ok(AcquireReply::NotHeld));
    is_not_replaced(&mut desk, 1);
    desk.quiet();
}

/// The lease that came too late is released, so the lock is free.
#[test]
fn it_is_no_acquisition_after_an_answer_that_came_too_late() {
    let mut desk = Desk::new();
    desk.acquire(0, replaces());
    let (late, _) = next_replace(&mut desk);
    desk.pass(TTL * 2);
    desk.fresh(late);
    desk.next_leave();
    let (sent, op) = next_replace(&mut desk);
    assert_eq!(&*op.holder, "dl1:other:1");
    desk.answer(sent, Ok(AcquireReply::NotHeld));
    is_not_replaced(&mut desk, 0);
}

#[test]
fn it_goes_before_those_who_wait_here_and_they_wait_behind_it() {
    let mut desk = Desk::new();
    let queued = desk.queue(want());
    desk.acquire(2, replaces());
    assert_eq!(desk.next_leave().0.token, queued, "its place in the queue is of no use any more");
    let (sent, _) = next_replace(&mut desk);
    desk.fresh(sent);
    let cell = desk.acquired();
    desk.nobody_is_done();
    desk.release(&cell);
    let (who, outcome) = desk.outcome();
    assert!(matches!((who, outcome), (1, Outcome::Acquired(_))), "handed on in this process");
}

#[test]
fn those_who_wait_here_go_on_if_the_ticket_is_worthless() {
    let mut desk = Desk::new();
    desk.queue(want());
    desk.acquire(2, replaces());
    desk.next_leave();
    let (sent, _) = next_replace(&mut desk);
    desk.answer(sent, Ok(AcquireReply::NotHeld));
    is_not_replaced(&mut desk, 2);
    let (sent, _) = desk.next();
    desk.fresh(sent);
    assert!(matches!(desk.outcome(), (1, Outcome::Acquired(_))));
}

#[test]
fn what_this_process_has_is_not_taken_over() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.acquire(1, replaces());
    is_not_replaced(&mut desk, 1);
    desk.quiet();
    assert!(desk.until(&cell) > desk.now);
}

#[test]
fn a_second_one_for_the_same_key_does_not_disturb_the_first() {
    let mut desk = Desk::new();
    desk.acquire(0, replaces());
    let (sent, _) = next_replace(&mut desk);
    desk.acquire(1, replaces());
    assert!(matches!(desk.outcome(), (1, Outcome::Busy { .. })));
    desk.quiet();
    desk.fresh(sent);
    desk.acquired();
}

#[test]
fn many_who_wait_are_found_by_their_tickets() {
    let mut desk = Desk::new();
    let waiting: Vec<_> = (1..40).map(|who| desk.acquire(who, want())).collect();
    desk.acquire(0, replaces());
    for ticket in waiting {
        desk.cancel(ticket);
    }
    let (sent, _) = loop {
        if let (sent, Command::Replace(_, op)) = desk.next() {
            break (sent, op);
        }
    };
    desk.fresh(sent);
    desk.acquired();
    assert_eq!(desk.engine.look(&desk.key, |machine| machine.waiting(&desk.key)), 0);
}

#[test]
fn what_comes_late_does_not_release_what_was_handed_over() {
    let mut desk = Desk::new();
    desk.acquire(0, want());
    let (first, _) = desk.next();
    let hint = PushHint::Unproven { key: desk.key.clone(), token: first.token };
    let notice = |desk: &mut Desk| {
        let ((), effects) = desk.engine.on_key(desk.now, hint.key(), |step| step.on_notice(&hint));
        desk.take(effects);
    };
    desk.sleep();
    let (second, ..) = desk.next_enter();
    let token = first.token;
    desk.fresh(first);
    let cell = desk.acquired();
    hand_over(&mut desk, &cell);
    let server_time = Some(desk.server_time());
    desk.answer(second, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    desk.grant(token, desk.server_time(), None);
    notice(&mut desk);
    desk.quiet();
    desk.grant(Token(4_711), desk.server_time(), None);
    assert_eq!(desk.next_leave().0.token, Token(4_711), "that of any other is given back");
}

/// Does the first step of the driver's hand-over: the last renewal.
fn renewed_last(desk: &mut Desk, cell: &LeaseCell) -> Sent {
    let (ttl, effects) = desk.engine.on_key(desk.now, &cell.key, |step| step.renew_last(cell));
    assert_eq!(ttl, Some(TTL));
    desk.take(effects);
    match desk.next() {
        (sent, Command::Renew(_, op::Renew { last: true, ttl: TTL, .. })) => sent,
        (_, other) => panic!("{other:?} was sent instead of the last renewal"),
    }
}

#[test]
fn nothing_is_renewed_after_the_last_time() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    renewed_last(&mut desk, &cell);
    let (extended, effects) = desk.engine.on_key(desk.now, &cell.key, |step| step.extend(&cell, TTL * 3));
    assert!(!extended);
    desk.take(effects);
    desk.down();
    desk.up(EarlierCommands::Ended);
    desk.ask_whether_held();
    desk.sleep();
    assert_eq!(desk.lost, [LostReason::Expired]);
    assert!(!desk.sent.iter().any(|(_, command)| matches!(command, Command::Renew(..))), "{:?}", desk.sent);
}

#[test]
fn a_lease_after_its_last_renewal_is_given_to_nobody_here() {
    for linger in [None, Some(ms(5_000))] {
        let mut desk = Desk::new();
        let cell = desk.hold(Want { linger, ..want() });
        if linger.is_none() {
            desk.acquire(1, want());
        }
        renewed_last(&mut desk, &cell);
        // The future was dropped. The store may or may not have executed the renewal.
        assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
        assert_eq!(desk.next_leave().0.token, cell.token);
        desk.nobody_is_done();
    }
}

#[test]
fn a_renewal_from_before_the_last_one_is_no_loss() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.sleep();
    let (before, _) = desk.next();
    desk.pass(ms(1));
    let last = renewed_last(&mut desk, &cell);
    desk.answer(before, Ok(RenewReply::NotHeld));
    assert!(desk.lost.is_empty() && desk.until(&cell) > desk.now);
    let server_time = desk.server_time();
    desk.answer(last, Ok(RenewReply::Renewed { server_time }));
    assert_eq!(hand_over(&mut desk, &cell), ReleaseStarted::HandedOn);
    desk.quiet();
}
