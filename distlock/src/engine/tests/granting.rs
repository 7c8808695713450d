use super::*;
use crate::protocol::{Clocks, Fences};

/// `t_S + (1 − ρ)·((G − S) + C) − margin`
#[test]
fn a_granted_lease_is_counted_from_the_last_answer() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    let asked = desk.now;
    desk.pass(ms(1_000));
    let granted = desk.server_time();
    desk.pass(ms(5));
    desk.grant(token, granted, None);
    let cell = desk.acquired();
    assert_eq!(desk.until(&cell), asked.after(ms(4_000 - 40 - 2)));
    desk.quiet();
}

#[test]
fn a_stale_push_is_ignored() {
    let mut desk = Desk::new();
    let before = desk.server_time();
    desk.pass(ms(1));
    let token = desk.queue(want());
    desk.pass(ms(1));
    desk.grant(token, before, None);
    desk.nobody_is_done();
    desk.quiet();
}

/// The store reports only a maximum age of the grant.
#[test]
fn a_grant_that_may_be_newer_than_it_seems_is_confirmed() {
    let mut desk = Desk::with(&Tuning { clocks: Clocks::Many, ..Tuning::default() });
    let before = desk.server_time();
    desk.pass(ms(1));
    let token = desk.queue(want());
    desk.pass(ms(1));
    desk.grant(token, before, None);
    desk.nobody_is_done();
    desk.next_enter();
}

#[test]
fn a_grant_that_leaves_less_than_half_the_claim_is_confirmed() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    let granted = desk.server_time();
    desk.pass(ms(1_600));
    desk.grant(token, granted, None);
    desk.nobody_is_done();
    let (context, ..) = desk.next_enter();
    let (asked, server_time) = (desk.now, Some(desk.server_time()));
    desk.pass(ms(1));
    desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    let cell = desk.acquired();
    assert_eq!(desk.until(&cell), asked.after(ms(10_000 - 100 - 2)));
}

#[test]
pub(super) fn a_grant_after_a_reconnection_is_confirmed() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.down();
    desk.up(EarlierCommands::Ended);
    desk.next_enter();
    desk.pass(ms(1));
    desk.grant(token, desk.server_time(), None);
    desk.nobody_is_done();
    desk.next_enter();
}

#[test]
fn a_grant_from_the_future_is_confirmed() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.pass(ms(10));
    let ServerTime(server_time) = desk.server_time();
    desk.grant(token, ServerTime(server_time + 2_000_000), None);
    desk.nobody_is_done();
    desk.next_enter();
}

/// Every client that may publish on our channel can forge a grant. After its fencing token the data would refuse all
/// later tokens.
#[test]
pub(super) fn a_fencing_token_far_ahead_of_the_servers_clock_is_asked_about() {
    for ahead in [61_000_000, 3_600_000_000, 1 << 53, u64::MAX] {
        let mut desk = Desk::new();
        desk.acquire(0, fenced());
        let (context, ..) = desk.next_enter();
        let token = context.token;
        desk.busy(context);
        desk.pass(ms(5));
        let granted = desk.server_time();
        desk.grant(token, granted, Some(granted.0.saturating_add(ahead)));
        desk.nobody_is_done();
        // It was forged: another client has the lock.
        let (context, ..) = desk.next_enter();
        desk.busy(context);
        desk.nobody_is_done();
        desk.pass(ms(5));
        // This one is real, from a server whose clock was set back: the server's reply is believed.
        let granted = desk.server_time();
        desk.grant(token, granted, Some(granted.0.saturating_add(ahead)));
        let (context, ..) = desk.next_enter();
        let fence = Some(granted.0 + 3_600_000_000);
        desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time: Some(granted), fence }));
        assert_eq!(desk.acquired().fence, fence);
    }
}

/// After a clock correction, or if very many tokens are reserved, a token is this far ahead. Then no question is
/// needed.
#[test]
fn a_fencing_token_that_is_a_little_ahead_of_the_servers_clock_is_believed() {
    let mut desk = Desk::new();
    desk.acquire(0, fenced());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    desk.pass(ms(5));
    let granted = desk.server_time();
    let fence = Some(granted.0 + 59_000_000);
    desk.grant(token, granted, fence);
    assert_eq!(desk.acquired().fence, fence);
}

/// A store may count its tokens without a clock.
#[test]
fn tokens_that_do_not_follow_a_clock_are_not_compared_with_it() {
    let mut desk = Desk::with(&Tuning { fences: Fences::OfTheStore, ..Tuning::default() });
    desk.acquire(0, fenced());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    desk.pass(ms(5));
    desk.grant(token, desk.server_time(), Some(1 << 60));
    assert_eq!(desk.acquired().fence, Some(1 << 60));
}

#[test]
fn a_grant_that_nobody_waits_for_is_given_back() {
    let mut desk = Desk::new();
    desk.grant(Token(99), desk.server_time(), None);
    assert_eq!(desk.next_leave().0.token, Token(99));
}

#[test]
fn a_push_told_twice_means_nothing() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.pass(ms(1));
    let server_time = desk.server_time();
    desk.grant(token, server_time, None);
    desk.acquired();
    desk.grant(token, server_time, None);
    desk.quiet();
    desk.nobody_is_done();
}

#[test]
fn a_hold_without_renewal_needs_the_whole_ttl() {
    let mut desk = Desk::new();
    let token = desk.queue(Want { renewal: Renewal::Never, ..want() });
    desk.pass(ms(1));
    desk.grant(token, desk.server_time(), None);
    desk.nobody_is_done();
    assert_eq!(desk.next_enter().0.token, token);
}

/// Threads notice replies in any order. This reply says that the lock was ours; after it was sent, the lock
/// was taken away and granted again.
#[test]
pub(super) fn an_answer_from_before_the_grant_says_nothing_about_its_lease() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.link(&LinkEvent::Notifications(Notifications::On));
    let (before, ..) = desk.next_enter();
    desk.link(&LinkEvent::Notifications(Notifications::On));
    let (after, ..) = desk.next_enter();
    desk.busy(after);
    desk.pass(ms(100));
    desk.grant(token, desk.server_time(), None);
    let cell = desk.acquired();
    let until = desk.until(&cell);
    let server_time = Some(desk.server_time());
    desk.answer(before, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    assert_eq!(desk.until(&cell), until);
}

/// The replies do not say whether the server applied the command with the most fences last or first.
#[test]
pub(super) fn a_grant_comes_with_as_many_tokens_as_the_most_modest_question() {
    let mut desk = Desk::new();
    desk.acquire(0, fenced());
    let (context, _, fences) = desk.next_enter();
    assert_eq!(fences, 2);
    let token = context.token;
    desk.busy(context);
    desk.acquire(1, fenced());
    desk.acquire(2, fenced());
    desk.link(&LinkEvent::Notifications(Notifications::On));
    let (context, _, fences) = desk.next_enter();
    assert_eq!(fences, 4);
    desk.busy(context);
    desk.grant(token, desk.server_time(), Some(1_000));
    for expected in [1_000, 1_001] {
        let cell = desk.acquired();
        assert_eq!(cell.fence, Some(expected));
        desk.release(&cell);
    }
    desk.nobody_is_done();
}

/// Two requests wait, the first for a short lease: its claim is in the queue. The first has left, and the
/// heartbeat for the second is sent. Returns the token and the heartbeat.
fn ask_for_a_longer_claim(desk: &mut Desk) -> (Token, Sent) {
    let first = desk.acquire(0, Want { ttl: ms(2_000), ..fenced() });
    desk.acquire(1, Want { ttl: ms(60_000), ..fenced() });
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    desk.cancel(first);
    desk.sleep();
    (token, desk.next_enter().0)
}

/// The server has not applied the longer claim.
#[test]
pub(super) fn a_grant_lasts_as_long_as_the_shortest_claim_that_may_stand_in_the_queue() {
    let mut desk = Desk::new();
    let (token, context) = ask_for_a_longer_claim(&mut desk);
    desk.fails(context, Failure::Later);
    let granted = desk.now;
    desk.grant(token, desk.server_time(), Some(1_000));
    let cell = desk.acquired();
    assert!(desk.until(&cell) <= granted.after(ms(2_000)), "{:?}", desk.until(&cell).duration_since(granted));
}

#[test]
fn a_grant_lasts_as_long_as_the_claim_that_was_answered_last() {
    let mut desk = Desk::new();
    let (token, context) = ask_for_a_longer_claim(&mut desk);
    let asked = desk.now;
    desk.busy(context);
    desk.grant(token, desk.server_time(), Some(1_000));
    let cell = desk.acquired();
    assert_eq!(desk.until(&cell), asked.after(ms(3_000 - 30 - 2)));
}

/// Two heartbeats were in flight. The newer one was answered before the grant came.
#[test]
fn an_answer_that_was_old_before_the_grant_is_old_after_it() {
    let mut desk = Desk::new();
    desk.acquire(0, fenced());
    let (first, ..) = desk.next_enter();
    let token = first.token;
    desk.up(EarlierCommands::Ended);
    let (second, ..) = desk.next_enter();
    desk.busy(second);
    desk.pass(ms(5));
    desk.grant(token, desk.server_time(), Some(1_000));
    let cell = desk.acquired();
    let until = desk.until(&cell);
    let server_time = Some(ServerTime(desk.server_time().0 + 1));
    desk.answer(first, Ok(AcquireReply::Acquired { server_time, fence: Some(900) }));
    assert!(desk.lost.is_empty());
    assert_eq!(desk.until(&cell), until);
}
