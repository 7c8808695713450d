//! Leases that live as long as the session.

use super::*;
use crate::backend::session::Session;
use crate::backend::{LeaseEnds, PushHint};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A process with a session.
fn with_session() -> (Desk, Arc<Session>) {
    let session = Arc::new(Session::default());
    let leases = LeaseEnds::WithSession(session.clone());
    let desk = Desk::with(&Tuning { poll_gap: Duration::ZERO, leases, ..Tuning::default() });
    session.answered(desk.now, TIMEOUT);
    (desk, session)
}

fn lose_session(desk: &mut Desk, session: &Session) {
    session.lose(desk.now);
    let effects = desk.engine.on_every_key(desk.now, |step| step.lose_session());
    desk.take(effects);
}

#[test]
fn a_hold_ends_with_the_session_or_with_its_ttl_whichever_is_sooner() {
    let (mut desk, session) = with_session();
    let cell = desk.hold(Want { ttl: Duration::from_secs(3_600), ..want() });
    assert_eq!(cell.state(desk.now), CellState::Until(session.deadline()));
    desk.pass(Duration::from_secs(20));
    session.answered(desk.now, TIMEOUT);
    assert_eq!(cell.state(desk.now), CellState::Until(session.deadline()));
    while desk.lost.is_empty() {
        desk.sleep();
        while desk.lost.is_empty()
            && let Some((context, _)) = desk.sent.pop_front()
        {
            let server_time = desk.server_time();
            desk.answer(context, Ok(RenewReply::Renewed { server_time }));
        }
    }
    assert_eq!((desk.now, desk.lost.as_slice()), (session.deadline(), [LostReason::Expired].as_slice()));

    let (desk, session, cell) = {
        let (mut desk, session) = with_session();
        let cell = desk.hold(Want { renewal: Renewal::Never, ..want() });
        (desk, session, cell)
    };
    let CellState::Until(until) = cell.state(desk.now) else { panic!("not held") };
    assert!(until < session.deadline());
}

#[test]
fn a_lost_session_is_the_end_of_every_hold_and_of_none_that_comes_after() {
    let (mut desk, session) = with_session();
    let cell = desk.hold(want());
    desk.pass(ms(10));
    lose_session(&mut desk, &session);
    assert_eq!(desk.lost, [LostReason::Expired]);
    // The next session begins, and a lost lease stays lost.
    desk.pass(ms(1));
    session.answered(desk.now, TIMEOUT);
    assert_eq!(cell.state(desk.now), CellState::Lost(LostReason::Expired));
    desk.sent.clear();
    desk.release(&cell);
    desk.sent.clear();
    let next = desk.hold(want());
    assert!(matches!(next.state(desk.now), CellState::Until(_)));
}

#[test]
pub(super) fn an_answer_from_the_lost_session_is_not_believed() {
    let (mut desk, session) = with_session();
    desk.acquire(0, want());
    let (old, _) = desk.next();
    desk.pass(ms(10));
    lose_session(&mut desk, &session);
    desk.sent.clear();
    desk.pass(ms(1));
    session.answered(desk.now, TIMEOUT);
    // The command was applied in the old session, whose end has ended the lease.
    desk.fresh(old.clone());
    desk.nobody_is_done();
    let mut sent = desk.sent.iter();
    assert!(sent.any(|(context, op)| context.token == old.token && matches!(op, Command::Release(..))));
    let (next, _) =
        desk.sent.iter().find(|(_, op)| matches!(op, Command::Acquire(_, Ask::Full(_)))).cloned().unwrap();
    assert_ne!(next.token, old.token);
    desk.fresh(next);
    desk.acquired();
}

#[test]
fn a_grant_of_the_lost_session_is_asked_for_before_it_is_believed() {
    let (mut desk, session) = with_session();
    let token = desk.queue(want());
    desk.pass(ms(10));
    let granted = desk.server_time();
    lose_session(&mut desk, &session);
    // The place in the queue ended with the session.
    let (_, mode, _) = desk.next_enter();
    assert_eq!(mode, AcquireMode::WaitAgain);
    session.answered(desk.now.after(ms(1)), TIMEOUT);
    desk.pass(ms(2));
    desk.grant(token, granted, None);
    desk.nobody_is_done();
}

#[test]
pub(super) fn a_lease_whose_ttl_is_over_is_given_back_before_its_body_has_ended() {
    let (mut desk, _session) = with_session();
    let cell = desk.hold(Want { renewal: Renewal::Never, ..want() });
    while desk.lost.is_empty() {
        desk.sleep();
    }
    if desk.sent.is_empty() {
        desk.sleep();
    }
    let (first, hold) = desk.next_leave();
    assert_eq!((first.token, hold), (cell.token, None));
    desk.answer(first, Ok(ReleaseReply::Released { gap: false }));
    // The body ends. One more release does no harm.
    desk.release(&cell);
    let (second, _) = desk.next_leave();
    desk.answer(second, Ok(ReleaseReply::NotHeld));
    assert_eq!(desk.engine.pending_releases(), []);
}

/// A shutdown waits for pending releases, and reports those that are left.
#[test]
fn nothing_is_pending_for_a_lost_lease_while_its_body_runs_nor_after_its_release() {
    let (mut desk, _session) = with_session();
    let cell = desk.hold(want());
    desk.pass(ms(200));
    let effects = desk.engine.on_every_key(desk.now, |step| step.lose_all(LostReason::Shutdown));
    desk.take(effects);
    assert_eq!(desk.engine.pending_releases(), []);
    desk.release(&cell);
    let (context, _) = desk.next_leave();
    desk.answer(context, Ok(ReleaseReply::Released { gap: false }));
    assert_eq!(desk.engine.rest(), 0);
}

/// A heartbeat that comes after the end of the session here may be in time for the server, which knows of no loss.
#[test]
fn a_lease_of_a_session_that_is_over_is_released_although_its_body_runs() {
    let (mut desk, session) = with_session();
    let cell = desk.hold(Want { ttl: Duration::from_secs(3_600), ..want() });
    desk.down();
    while desk.lost.is_empty() {
        desk.sleep();
    }
    assert_eq!(desk.now, session.deadline());
    desk.up(EarlierCommands::Ended);
    assert_eq!(desk.next_leave().0.token, cell.token);
}

#[test]
fn a_new_link_does_not_end_a_lost_lease_before_its_ttl() {
    let (mut desk, _session) = with_session();
    let start = desk.now;
    let cell = desk.hold(Want { max_hold: Some(ms(500)), ..want() });
    desk.sleep();
    assert_eq!(desk.lost, [LostReason::MaxHold]);
    desk.down();
    desk.up(EarlierCommands::Ended);
    desk.quiet();
    desk.sleep();
    assert_eq!((desk.next_leave().0.token, desk.now), (cell.token, start.after(TTL)));
}

#[test]
fn a_release_is_repeated_until_it_is_answered_however_long_that_takes() {
    let (mut desk, session) = with_session();
    let cell = desk.hold(want());
    desk.release(&cell);
    for failure in [Failure::Unknown, Failure::Later, Failure::Refused] {
        for _ in 0..50 {
            let (context, _) = desk.next_leave();
            desk.fails(context, failure);
            session.answered(desk.now, TIMEOUT);
            desk.sleep();
        }
    }
    let (context, _) = desk.next_leave();
    desk.answer(context, Ok(ReleaseReply::Released { gap: false }));
    assert_eq!(desk.engine.pending_releases(), []);
}

fn notice(desk: &mut Desk, notice: PushHint) {
    let ((), effects) = desk.engine.on_key(desk.now, notice.key(), |step| step.on_notice(&notice));
    desk.take(effects);
}

#[test]
fn who_may_get_in_asks_and_what_nobody_waits_for_goes_back() {
    let (mut desk, _session) = with_session();
    let token = desk.queue(want());
    let key = desk.key.clone();
    notice(&mut desk, PushHint::Free { key: key.clone() });
    assert_eq!(desk.sleep(), Duration::ZERO);
    let (context, mode, _) = desk.next_enter();
    assert_eq!(mode, AcquireMode::WaitAgain);
    desk.busy(context);
    notice(&mut desk, PushHint::Unproven { key: key.clone(), token });
    assert_eq!(desk.sleep(), Duration::ZERO);
    let (context, _, _) = desk.next_enter();
    desk.fresh(context);
    desk.acquired();
    notice(&mut desk, PushHint::Unproven { key: key.clone(), token });
    desk.quiet();
    notice(&mut desk, PushHint::Unproven { key, token: Token(4_711) });
    let (context, _) = desk.next_leave();
    assert_eq!(context.token, Token(4_711));
}

/// The commands for one key follow each other, so a release would wait for those of all hints.
#[test]
fn hints_that_come_before_a_reply_lead_to_one_command_after_it() {
    let (mut desk, _session) = with_session();
    let token = desk.queue(want());
    let key = desk.key.clone();
    desk.sleep();
    let (context, ..) = desk.next_enter();
    for _ in 0..3 {
        desk.pass(ms(10));
        notice(&mut desk, PushHint::Free { key: key.clone() });
        notice(&mut desk, PushHint::Unproven { key: key.clone(), token });
        desk.timer();
        desk.quiet();
    }
    desk.busy(context);
    assert_eq!(desk.sleep(), Duration::ZERO);
    let (context, ..) = desk.next_enter();
    desk.busy(context);
    desk.timer();
    desk.quiet();
}
