use super::*;

#[test]
fn waiters_here_get_the_lock_without_the_server_first_in_first_out() {
    let mut desk = Desk::new();
    let mut cell = desk.hold(want());
    for who in 1..4 {
        desk.acquire(who, want());
    }
    for who in 1..4 {
        assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn);
        desk.quiet();
        let (found, outcome) = desk.outcome();
        assert_eq!(found, who);
        let Outcome::Acquired(next) = outcome else { panic!("{outcome:?}") };
        assert_eq!(next.token, cell.token);
        cell = next;
    }
}

#[test]
fn the_chain_ends_after_fifty_milliseconds() {
    let mut desk = Desk::without_gaps();
    let cell = desk.hold(want());
    desk.acquire(1, want());
    desk.pass(ms(50));
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    let left = desk.next_leave().0.token;
    let (context, mode, _) = desk.next_enter();
    assert_eq!((left, mode), (cell.token, AcquireMode::Wait));
    assert_ne!(context.token, cell.token);
}

#[test]
fn every_hold_has_its_own_fencing_token_from_the_reserved_range() {
    let mut desk = Desk::new();
    let first = desk.hold(fenced());
    assert_eq!(first.fence, Some(1_000));
    desk.acquire(1, fenced());
    desk.acquire(2, fenced());
    // Two tokens were reserved: for the request, and for one more.
    desk.release(&first);
    let second = desk.acquired();
    assert_eq!(second.fence, Some(1_001));
    desk.release(&second);
    desk.nobody_is_done();
    let (context, _, fences) = desk.next_enter();
    assert_eq!((context.token, fences), (first.token, 2));
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time, fence: Some(2_000) }));
    assert_eq!(desk.acquired().fence, Some(2_000));
}

#[test]
fn a_lock_that_is_to_stay_taken_is_not_handed_on() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { min_hold: Some(ms(500)), ..want() });
    desk.acquire(1, want());
    desk.pass(ms(10));
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    assert_eq!(desk.next_leave().1, Some(ms(490)));
}

#[test]
fn a_lost_lock_is_not_handed_on() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { max_hold: Some(ms(20)), ..want() });
    desk.acquire(1, want());
    desk.pass(ms(20));
    assert_eq!(desk.release(&cell), ReleaseStarted::WasLost(LostReason::MaxHold));
    desk.nobody_is_done();
}

#[test]
fn a_hold_without_renewal_gets_its_ttl_of_a_longer_lease_that_is_handed_on() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.acquire(1, Want { renewal: Renewal::Never, ttl: ms(1_000), ..want() });
    desk.pass(ms(10));
    assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn);
    let next = desk.acquired();
    assert_eq!(desk.until(&next), desk.now.after(ms(1_000 - 10 - 2)));
}

#[test]
fn a_lease_that_has_little_time_left_is_not_handed_on_without_asking() {
    let mut desk = Desk::new();
    // Half of the shorter of the ttl and 3 s must be left.
    let cell = desk.hold(Want { ttl: ms(60), renewal: Renewal::Never, ..want() });
    desk.acquire(1, want());
    desk.pass(ms(40));
    desk.release(&cell);
    desk.nobody_is_done();
    let (context, ..) = desk.next_enter();
    assert_eq!(context.token, cell.token);
}

/// The server may have executed any of the commands that queued us, and granted the number of tokens of that command.
#[test]
fn of_several_reservations_the_fewest_fencing_tokens_are_used() {
    let mut desk = Desk::new();
    desk.acquire(0, fenced());
    let (context, _, fences) = desk.next_enter();
    let token = context.token;
    assert_eq!(fences, 2);
    desk.busy(context);
    for who in 1..4 {
        desk.acquire(who, fenced());
    }
    desk.sleep();
    let (_, _, fences) = desk.next_enter();
    assert_eq!(fences, 5);
    desk.grant(token, desk.server_time(), Some(1_000));
    let mut given = Vec::new();
    for _ in 0..2 {
        let cell = desk.acquired();
        given.push(cell.fence);
        desk.release(&cell);
    }
    assert_eq!(given, [Some(1_000), Some(1_001)]);
    desk.nobody_is_done();
    assert_eq!(desk.next_enter().0.token, token);
}

/// The token names the term of a leader, so each term has its own.
#[test]
fn a_waiter_that_needs_its_own_lease_gets_no_lease_of_a_former_holder() {
    let own = || Want { own_lease: true, ..want() };
    for first in [want(), Want { linger: Some(ms(5_000)), ..want() }] {
        let mut desk = Desk::without_gaps();
        let cell = desk.hold(first);
        desk.acquire(1, own());
        assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
        gets_its_own_lease(&mut desk, cell.token);
    }
    // A lease that lingers is released, too.
    let mut desk = Desk::without_gaps();
    let cell = desk.hold(Want { linger: Some(ms(5_000)), ..want() });
    assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn);
    desk.acquire(1, own());
    gets_its_own_lease(&mut desk, cell.token);
    // And one that is about to be extended for another waiter, which leaves.
    let mut desk = Desk::without_gaps();
    let cell = desk.hold(want());
    let between = desk.acquire(2, fenced());
    desk.acquire(1, own());
    assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn);
    assert_eq!(desk.next_enter().0.token, cell.token);
    desk.cancel(between);
    gets_its_own_lease(&mut desk, cell.token);
}

/// It wants a fencing token, and the request before it, which has left, did not reserve one.
#[test]
fn a_grant_that_no_request_held_is_extended_for_a_waiter_that_needs_its_own_lease() {
    let mut desk = Desk::without_gaps();
    let before = desk.acquire(0, want());
    let (context, _) = desk.next();
    desk.busy(context);
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    desk.acquire(1, Want { own_lease: true, ..fenced() });
    desk.cancel(before);
    desk.grant(token, desk.server_time(), None);
    let (context, ..) = desk.next_enter();
    assert_eq!(context.token, token);
    // Another request comes.
    desk.acquire(2, want());
    desk.quiet();
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time, fence: Some(7) }));
    let cell = desk.acquired();
    assert_eq!((cell.token, cell.fence), (token, Some(7)));
}

/// Request 1, after a lease with the token `former`.
fn gets_its_own_lease(desk: &mut Desk, former: Token) {
    assert_eq!(desk.next_leave().0.token, former);
    let (sent, command) = desk.next();
    assert!(matches!(command, Command::Acquire(..)), "{command:?}");
    assert_ne!(sent.token, former);
    desk.nobody_is_done();
    desk.fresh(sent);
    let cell = desk.acquired();
    // Its lease may be handed on to a request that accepts it.
    desk.acquire(3, want());
    assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn);
    assert_eq!(desk.acquired().token, cell.token);
}
