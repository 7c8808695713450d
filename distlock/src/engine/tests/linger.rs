//! Leases that stay with the process after their last section.

use super::*;
use crate::protocol::session::Session;
use crate::protocol::{LeaseEnds, LockKind, Wanted};

fn lingering() -> Want {
    Want { linger: Some(ms(50)), ..want() }
}

/// The next section, which takes up the lease that lingers.
fn comes_back(desk: &mut Desk, want: Want) -> Arc<LeaseCell> {
    desk.acquire(0, want);
    desk.quiet();
    desk.acquired()
}

#[test]
fn sections_come_back_without_a_command_until_the_time_since_the_first_release_is_over() {
    let mut desk = Desk::without_gaps();
    let mut cell = desk.hold(lingering());
    let token = cell.token;
    desk.pass(ms(1_000));
    for _ in 0..4 {
        assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn);
        desk.pass(ms(10));
        cell = comes_back(&mut desk, lingering());
        assert_eq!(cell.token, token);
        assert_eq!(cell.how, crate::lease_cell::How::HandedOn);
    }
    desk.pass(ms(10));
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    assert_eq!(desk.next_leave().0.token, token);
    desk.quiet();
}

/// A timer may be 2 ms late.
#[test]
pub(super) fn a_lease_that_nobody_comes_back_to_is_released_before_its_time_is_over() {
    let mut desk = Desk::new();
    let cell = desk.hold(lingering());
    desk.release(&cell);
    desk.quiet();
    assert_eq!(desk.sleep(), ms(46));
    let (context, keep) = desk.next_leave();
    assert_eq!((context.token, keep), (cell.token, None));
    desk.answer(context, Ok(ReleaseReply::Released { gap: false }));
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn its_token_says_for_how_long_and_it_is_asked_for_by_a_command_that_tells_others() {
    let mut desk = Desk::new();
    desk.acquire(0, lingering());
    let (context, mode, fences) = desk.next_enter();
    assert_eq!((context.token.linger(), mode, fences), (Some(ms(50)), AcquireMode::Wait, 0));
    desk.fresh(context);
    // A request that does not linger asks plainly, and its lease does not stay.
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    assert_eq!(cell.token.linger(), None);
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
}

#[test]
fn a_lease_whose_last_section_does_not_linger_is_released() {
    let mut desk = Desk::new();
    let cell = desk.hold(lingering());
    desk.release(&cell);
    let cell = comes_back(&mut desk, want());
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
}

#[test]
fn it_is_given_back_at_once_when_another_client_wants_it() {
    let mut desk = Desk::new();
    let cell = desk.hold(lingering());
    desk.release(&cell);
    let wanted = Push::Wanted { key: desk.key.clone(), token: cell.token };
    desk.push(wanted.clone());
    assert_eq!(desk.next_leave().0.token, cell.token);
    desk.push(wanted);
    desk.quiet();
    // For some time the key does not linger here, because the other process may want it again.
    let cell = desk.hold(lingering());
    assert_eq!(cell.token.linger(), None);
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    desk.next_leave();
    desk.pass(ms(2_000));
    let cell = desk.hold(lingering());
    assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn);
}

#[test]
fn a_wish_that_comes_during_a_section_is_remembered() {
    let mut desk = Desk::new();
    let cell = desk.hold(lingering());
    desk.push(Push::Wanted { key: desk.key.clone(), token: cell.token });
    desk.quiet();
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    // The same with a push that overtakes the reply.
    let mut desk = Desk::new();
    desk.acquire(0, lingering());
    let (context, ..) = desk.next_enter();
    desk.push(Push::Wanted { key: desk.key.clone(), token: context.token });
    desk.fresh(context);
    let cell = desk.acquired();
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
}

#[test]
fn a_lease_that_was_waited_for_does_not_linger() {
    let mut desk = Desk::new();
    desk.acquire(0, lingering());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    desk.grant(token, desk.server_time(), None);
    let cell = desk.acquired();
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
}

#[test]
fn nothing_lingers_where_others_may_not_be_heard() {
    type Event = fn(&mut Desk);
    let events: [Event; 7] = [
        |desk| desk.link(&LinkEvent::Notifications(Notifications::Off)),
        |desk| desk.link(&LinkEvent::Notifications(Notifications::On)),
        |desk| desk.down(),
        |desk| desk.up(EarlierCommands::Ended),
        |desk| desk.ask_whether_held(),
        |desk| {
            let effects = desk.engine.on_every_key(desk.now, |step| step.lose_all(LostReason::Shutdown));
            desk.take(effects);
        },
        |desk| {
            let effects = desk.engine.close(desk.now);
            desk.take(effects);
        },
    ];
    for (index, event) in events.into_iter().enumerate() {
        let mut desk = Desk::new();
        let cell = desk.hold(lingering());
        desk.release(&cell);
        event(&mut desk);
        assert_eq!(desk.next_leave().0.token, cell.token, "{index}");
        desk.quiet();
        assert!(desk.lost.is_empty(), "nobody is told");
    }
    let mut desk = Desk::new();
    desk.link(&LinkEvent::Notifications(Notifications::Off));
    let cell = desk.hold(lingering());
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
}

#[test]
fn where_nobody_is_ever_told_it_lingers_without_pushes() {
    let mut desk = Desk::with(&Tuning { wanted: Wanted::NeverTold, ..Tuning::default() });
    desk.link(&LinkEvent::Notifications(Notifications::Off));
    let cell = desk.hold(lingering());
    assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn);
    assert_eq!(desk.sleep(), ms(46));
    assert_eq!(desk.next_leave().0.token, cell.token);
}

#[test]
fn every_section_has_a_fencing_token_of_its_own_and_asks_when_none_is_left() {
    let mut desk = Desk::with(&Tuning { most_fences: 3, ..Tuning::default() });
    let want = || Want { fenced: true, ..lingering() };
    desk.acquire(0, want());
    let (context, _, fences) = desk.next_enter();
    assert_eq!(fences, 3);
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::Acquired { server_time, fence: Some(70) }));
    let mut cell = desk.acquired();
    for fence in 70..72 {
        assert_eq!(cell.fence, Some(fence));
        desk.release(&cell);
        cell = comes_back(&mut desk, want());
    }
    assert_eq!(cell.fence, Some(72));
    desk.release(&cell);
    desk.acquire(0, want());
    let (context, _, fences) = desk.next_enter();
    assert_eq!((context.token, fences), (cell.token, 3));
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time, fence: Some(90) }));
    assert_eq!(desk.acquired().fence, Some(90));
}

#[test]
fn a_lease_that_is_nearly_over_is_asked_for_again_and_one_that_is_over_is_not_used() {
    let long = || Want { linger: Some(ms(16_000)), ..want() };
    let mut desk = Desk::new();
    let cell = desk.hold(long());
    desk.release(&cell);
    desk.pass(ms(9_000));
    desk.acquire(0, long());
    let (context, ..) = desk.next_enter();
    assert_eq!(context.token, cell.token);
    desk.nobody_is_done();
    let mut desk = Desk::new();
    let cell = desk.hold(long());
    let until = desk.until(&cell);
    desk.release(&cell);
    assert_eq!(desk.sleep(), until.duration_since(Time(1_000_000_000_000)));
    assert_eq!(desk.next_leave().0.token, cell.token);
    desk.acquire(0, long());
    assert_ne!(desk.next_enter().0.token, cell.token);
}

#[test]
fn time_limits_of_a_section_count_from_its_own_begin() {
    let mut desk = Desk::new();
    let cell = desk.hold(lingering());
    desk.release(&cell);
    desk.pass(ms(40));
    let cell = comes_back(&mut desk, Want { max_hold: Some(ms(20)), ..lingering() });
    assert_eq!(desk.until(&cell), desk.now.after(ms(20)));
    desk.release(&cell);
    // `min_hold` is kept, and ends the lease.
    let cell = comes_back(&mut desk, Want { min_hold: Some(ms(500)), ..want() });
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    assert_eq!(desk.next_leave().1, Some(ms(500)));
}

#[test]
fn a_section_without_renewal_has_all_of_its_ttl() {
    let mut desk = Desk::new();
    let cell = desk.hold(lingering());
    desk.release(&cell);
    desk.pass(ms(10));
    desk.acquire(0, Want { renewal: Renewal::Never, ..lingering() });
    let (context, ..) = desk.next_enter();
    assert_eq!(context.token, cell.token);
}

#[test]
fn another_kind_of_lock_is_asked_for_behind_its_release() {
    for kind in [LockKind::Shared, LockKind::Limited { max_holders: 2 }] {
        let mut desk = Desk::new();
        let cell = desk.hold(lingering());
        desk.release(&cell);
        desk.acquire(1, Want { kind, ..want() });
        assert_eq!(desk.next_leave().0.token, cell.token);
        assert_ne!(desk.next_enter().0.token, cell.token);
        desk.nobody_is_done();
    }
}

#[test]
fn a_late_reply_does_not_release_a_lease_that_lingers_and_one_that_shows_a_loss_does() {
    let mut desk = Desk::new();
    desk.acquire(0, lingering());
    let (first, ..) = desk.next_enter();
    assert_eq!(desk.sleep(), ms(1_000));
    let (second, ..) = desk.next_enter();
    desk.fresh(first);
    let cell = desk.acquired();
    desk.release(&cell);
    let server_time = Some(desk.server_time());
    desk.answer(second.clone(), Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    desk.quiet();
    comes_back(&mut desk, lingering());

    let mut desk = Desk::new();
    desk.acquire(0, lingering());
    let (first, ..) = desk.next_enter();
    desk.sleep();
    let (second, ..) = desk.next_enter();
    desk.fresh(first);
    let cell = desk.acquired();
    desk.release(&cell);
    desk.pass(ms(1));
    desk.fresh(second);
    assert_eq!(desk.next_leave().0.token, cell.token);
    desk.sent.clear();
    desk.acquire(0, lingering());
    assert_ne!(desk.next_enter().0.token, cell.token);
}

#[test]
fn who_tries_once_tells_the_holder_and_is_busy() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { wait_limit: WaitLimit::Once, ..want() });
    let (plain, _) = desk.next();
    let holder = "dl1:other:0700050";
    desk.busy_behind(plain, holder, Place::Behind);
    desk.nobody_is_done();
    let (context, mode, _) = desk.next_enter();
    assert_eq!(mode, AcquireMode::Try);
    desk.busy_behind(context, holder, Place::Behind);
    assert!(matches!(desk.outcome(), (0, Outcome::Busy { .. })));
    desk.quiet();
}

#[test]
fn who_waits_behind_it_asks_again_when_its_time_must_be_over_and_then_a_few_times() {
    let mut desk = Desk::new();
    desk.acquire(0, lingering());
    for (holder, waits) in [
        ("dl1:other:0700050", [48, 3, 12, 48, 192, 500, 500]),
        ("dl1:other:0800020", [18, 3, 12, 48, 192, 500, 500]),
    ] {
        for wait in waits {
            let (context, ..) = desk.next_enter();
            desk.busy_behind(context, holder, Place::First);
            assert_eq!(desk.sleep(), ms(wait), "{holder}");
        }
    }
    let (context, ..) = desk.next_enter();
    desk.busy_behind(context, "dl1:other:0800020", Place::First);
    assert!(desk.sleep() > ms(1_000));
}

#[test]
fn who_is_served_when_the_keeper_has_been_told_asks_no_more() {
    let mut desk = Desk::new();
    desk.acquire(0, lingering());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy_behind(context, "dl1:other:0700050", Place::First);
    desk.pass(ms(1));
    desk.grant(token, desk.server_time(), None);
    let cell = desk.acquired();
    desk.pass(ms(60));
    desk.timer();
    desk.quiet();
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    desk.next_leave();
    desk.quiet();
}

#[test]
fn sections_that_follow_each_other_leave_a_gap_for_those_who_poll() {
    let gap = Duration::from_millis(10);
    let always = Tuning { poll_gap: gap, poll_gap_interval: Duration::ZERO, ..Tuning::default() };
    let mut desk = Desk::with(&always);
    let cell = desk.hold(lingering());
    desk.release(&cell);
    desk.pass(ms(45));
    let cell = comes_back(&mut desk, lingering());
    desk.pass(ms(1));
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    desk.next_leave();
    desk.acquire(0, lingering());
    desk.quiet();
    assert_eq!(desk.sleep(), gap);
    desk.next_enter();
}

#[test]
fn it_ends_with_the_session_and_no_section_begins_after_that() {
    for reported in [true, false] {
        let session = Arc::new(Session::default());
        let leases = LeaseEnds::WithSession(session.clone());
        let mut desk = Desk::with(&Tuning { leases, ..Tuning::default() });
        session.answered(desk.now, ms(30_000));
        let cell = desk.hold(lingering());
        desk.release(&cell);
        session.lose(desk.now);
        if reported {
            let effects = desk.engine.on_every_key(desk.now, |step| step.lose_session());
            desk.take(effects);
        }
        desk.acquire(0, lingering());
        assert_eq!(desk.next_leave().0.token, cell.token);
        assert_ne!(desk.next_enter().0.token, cell.token);
        desk.nobody_is_done();
        assert!(desk.lost.is_empty(), "nobody is told");
    }
}
