//! Releases that the server has not confirmed: one for each token, with pauses, for a limited time.

use super::*;
use crate::backend::LeaseEnds;
use crate::backend::session::Session;
use crate::engine::state::pending::MAX_PENDING_RELEASES;
use crate::protocol::LockKind;
use crate::protocol::op::Ends;

/// Releases the lock while the link is down.
fn release_without_link(desk: &mut Desk) -> Token {
    let cell = desk.hold(want());
    desk.down();
    desk.release(&cell);
    let (context, _) = desk.next_leave();
    desk.fails(context, Failure::NotSent);
    cell.token
}

/// Answers every command that was sent, with the same failure.
fn answer_all(desk: &mut Desk, failure: Failure) -> usize {
    let sent: Vec<_> = desk.sent.drain(..).collect();
    let count = sent.len();
    for (context, _) in sent {
        desk.fails(context, failure);
    }
    count
}

/// Fires the timers that are due within `d`, failing every command. Returns how many commands were sent.
fn fail_for(desk: &mut Desk, d: Duration, failure: Failure) -> usize {
    let (end, mut count) = (desk.now.after(d), answer_all(desk, failure));
    while let Some(due) = desk.engine.next_due().filter(|due| *due < end) {
        desk.now = desk.now.max(due);
        desk.timer();
        count += answer_all(desk, failure);
    }
    desk.now = end;
    count
}

#[test]
fn a_flapping_link_whose_former_links_may_be_alive_does_not_multiply_them() {
    let mut desk = Desk::new();
    let token = release_without_link(&mut desk);
    let (mut sends, mut most) = (0, 0);
    for _ in 0..30 {
        desk.up(EarlierCommands::MayArrive);
        sends += fail_for(&mut desk, ms(1_000), Failure::Unknown);
        desk.down();
        sends += fail_for(&mut desk, ms(1_000), Failure::NotSent);
        most = most.max(desk.engine.pending_releases().len());
    }
    assert_eq!(most, 1);
    assert!(sends <= 30 * 6, "{sends}");
    assert!(desk.engine.pending_releases().iter().all(|(_, pending)| *pending == token));
}

#[test]
fn a_server_that_refuses_for_now_is_asked_less_and_less_often() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.release(&cell);
    let sends = fail_for(&mut desk, ms(10_000), Failure::Later);
    assert!((5..=16).contains(&sends), "{sends}");
    assert_eq!(desk.engine.pending_releases().len(), 1);
}

#[test]
fn a_release_that_the_server_refuses_is_repeated_slowly_until_nothing_can_be_left() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.release(&cell);
    let sends = fail_for(&mut desk, ms(10_000), Failure::Refused);
    assert!((3..=7).contains(&sends), "{sends}");
    assert_eq!(desk.engine.pending_releases().len(), 1);
    fail_for(&mut desk, ms(10_000), Failure::Refused);
    assert_eq!(desk.engine.rest(), 0);
}

/// Another lock of the same shard has a ttl of an hour.
#[test]
fn one_is_forgotten_when_nothing_of_its_own_token_can_be_left() {
    let mut desk = Desk::new();
    let long = desk.hold(Want { ttl: ms(3_600_000), ..want() });
    desk.release(&long);
    let (context, _) = desk.next_leave();
    desk.answer(context, Ok(ReleaseReply::Released { gap: false }));
    release_without_link(&mut desk);
    fail_for(&mut desk, ms(17_000), Failure::NotSent);
    assert_eq!(desk.engine.pending_releases().len(), 1, "a queue entry and its claim may live for 13 s");
    fail_for(&mut desk, ms(2_000), Failure::NotSent);
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn a_longer_extension_is_remembered_as_long_as_it_may_last() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    let (_, effects) = desk.engine.on_key(desk.now, &cell.key, |step| step.extend(&cell, ms(60_000)));
    desk.take(effects);
    desk.next();
    desk.down();
    desk.release(&cell);
    fail_for(&mut desk, ms(60_000), Failure::NotSent);
    assert_eq!(desk.engine.pending_releases().len(), 1);
    fail_for(&mut desk, ms(10_000), Failure::NotSent);
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn there_are_never_more_than_can_be_remembered() {
    let mut desk = Desk::new();
    desk.down();
    for number in 0..MAX_PENDING_RELEASES + 100 {
        let token = Token(1_000 + u64::try_from(number).unwrap());
        desk.grant(token, desk.server_time(), None);
        answer_all(&mut desk, Failure::NotSent);
        desk.pass(ms(1));
    }
    let left = desk.engine.pending_releases();
    assert_eq!(left.len(), MAX_PENDING_RELEASES);
    // The releases of the locks that end first were given up.
    assert!(left.iter().all(|(_, token)| token.0 >= 1_100));
}

/// Such a lock does not end by itself.
#[test]
fn no_release_of_a_lock_that_ends_with_a_session_is_given_up() {
    let session = Arc::new(Session::default());
    let leases = LeaseEnds::WithSession(session.clone());
    let mut desk = Desk::with(&Tuning { leases, ..Tuning::default() });
    session.answered(desk.now, Duration::from_secs(3_600));
    desk.down();
    for number in 0..MAX_PENDING_RELEASES + 100 {
        desk.grant(Token(1_000 + u64::try_from(number).unwrap()), desk.server_time(), None);
        answer_all(&mut desk, Failure::NotSent);
    }
    assert_eq!(desk.engine.pending_releases().len(), MAX_PENDING_RELEASES + 100);
}

#[test]
fn what_waits_for_a_link_goes_out_with_it_though_a_former_link_may_be_alive() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.down();
    desk.up(EarlierCommands::MayArrive);
    desk.sent.clear();
    desk.release(&cell);
    let (context, _) = desk.next_leave();
    desk.down();
    desk.fails(context, Failure::Unknown);
    desk.pass(ms(100));
    desk.up(EarlierCommands::MayArrive);
    assert_eq!(desk.next_leave().0.token, cell.token);
    assert_eq!(desk.engine.pending_releases().len(), 1);
}

#[test]
fn who_waits_while_the_server_refuses_for_now_asks_again_and_is_told_what_it_said() {
    for wait_limit in [WaitLimit::Once, WaitLimit::Forever] {
        let mut desk = Desk::new();
        desk.acquire(1, Want { wait_limit, ..want() });
        let sends = fail_for(&mut desk, ms(3_100), Failure::Later);
        assert!((5..=20).contains(&sends), "{sends}");
        let (_, outcome) = desk.outcome();
        let Outcome::Unavailable(error) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.to_string(), "as the test says");
    }
}

#[test]
fn who_waits_is_let_in_when_the_server_is_ready_again() {
    let mut desk = Desk::new();
    desk.acquire(1, want());
    fail_for(&mut desk, ms(2_000), Failure::Later);
    desk.sleep();
    let (context, ..) = desk.next_enter();
    desk.fresh(context);
    desk.acquired();
}

/// A script may stop after it has acquired the lock, because its next command is not permitted.
#[test]
fn what_was_refused_may_have_been_done_in_part_and_is_undone() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { wait_limit: WaitLimit::Once, ..fenced() });
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.fails(context, Failure::Refused);
    assert!(matches!(desk.outcome(), (0, Outcome::Unavailable(_))));
    assert_eq!(desk.next_leave().0.token, token);
}

/// An acquire command that was given up fails after the release that compensates it: threads may send in
/// another order than the one in which they asked. Returns the token of the command.
fn fails_behind_its_undoing(desk: &mut Desk, failure: Failure) -> Token {
    let ticket = desk.acquire(0, fenced());
    let (context, ..) = desk.next_enter();
    desk.cancel(ticket);
    let (leave, _) = desk.next_leave();
    desk.answer(leave, Ok(ReleaseReply::NotHeld));
    let token = context.token;
    desk.fails(context, failure);
    token
}

#[test]
fn what_is_refused_after_it_was_given_up_is_undone_once_more() {
    let mut desk = Desk::new();
    let token = fails_behind_its_undoing(&mut desk, Failure::Refused);
    assert_eq!(desk.next_leave().0.token, token);
}

#[test]
fn what_the_server_did_not_do_for_now_needs_no_undoing() {
    let mut desk = Desk::new();
    fails_behind_its_undoing(&mut desk, Failure::Later);
    desk.quiet();
}

/// A store may have a shorter command for the most frequent release.
#[test]
fn only_the_release_of_an_exclusive_lease_says_that_it_is_one() {
    let mut desk = Desk::new();
    let mut ends_of = |kind| {
        let cell = desk.hold(Want { kind, ..want() });
        desk.release(&cell);
        match desk.next() {
            (sent, Command::Release(_, op)) => {
                desk.answer(sent, Ok(ReleaseReply::Released { gap: false }));
                op.ends
            }
            (_, other) => panic!("{other:?}"),
        }
    };
    assert_eq!(ends_of(LockKind::Exclusive), Ends::ExclusiveLease);
    assert_eq!(ends_of(LockKind::Shared), Ends::Other);
    assert_eq!(ends_of(LockKind::Limited { max_holders: 2 }), Ends::Other);
    // Its lease may have ended, and other processes may wait.
    let cell = desk.hold(want());
    desk.release(&cell);
    let (sent, _) = desk.next_leave();
    desk.fails(sent, Failure::Unknown);
    desk.sleep();
    let (sent, repeated) = desk.next();
    assert!(matches!(repeated, Command::Release(_, op::Release { ends: Ends::Other, .. })));
    desk.answer(sent, Ok(ReleaseReply::NotHeld));
    // It waits in the queue.
    let waiting = desk.acquire(7, want());
    for _ in ["plain", "queued"] {
        let (sent, _) = desk.next();
        desk.busy(sent);
    }
    desk.cancel(waiting);
    assert!(matches!(desk.next(), (_, Command::Release(_, op::Release { ends: Ends::Other, .. }))));
}
