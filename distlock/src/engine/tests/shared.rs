//! Readers: they share a lease here, and none of them passes a writer.

use super::*;
use crate::protocol::LockKind;

fn reader() -> Want {
    Want { kind: LockKind::Shared, ..want() }
}

#[test]
fn readers_who_come_close_together_share_a_lease() {
    let mut desk = Desk::new();
    let first = desk.hold(reader());
    desk.pass(ms(49));
    desk.acquire(1, reader());
    assert_eq!(desk.acquired().token, first.token);
    desk.quiet();
}

#[test]
fn readers_who_come_later_ask_the_server() {
    let mut desk = Desk::new();
    let first = desk.hold(reader());
    desk.pass(ms(50));
    desk.acquire(1, reader());
    desk.nobody_is_done();
    assert_ne!(desk.next_enter().0.token, first.token);
}

#[test]
pub(super) fn readers_join_for_a_shorter_time_where_another_process_was_in_the_way() {
    let mut desk = Desk::new();
    desk.acquire(0, reader());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    let granted = desk.server_time();
    desk.grant(token, granted, None);
    desk.acquired();
    desk.pass(ms(4));
    desk.acquire(1, reader());
    assert_eq!(desk.acquired().token, token);
    desk.pass(ms(1));
    desk.acquire(2, reader());
    desk.nobody_is_done();
    assert_ne!(desk.next_enter().0.token, token);
}

/// Two readers who share a lease that was granted to them behind a writer of another process.
fn granted_to_two(desk: &mut Desk) -> [Arc<LeaseCell>; 2] {
    desk.acquire(0, reader());
    desk.acquire(1, reader());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    let granted = desk.server_time();
    desk.grant(token, granted, None);
    [desk.acquired(), desk.acquired()]
}

#[test]
pub(super) fn where_another_process_was_in_the_way_no_reader_joins_after_one_has_left() {
    let mut desk = Desk::new();
    let [first, second] = granted_to_two(&mut desk);
    desk.pass(ms(1));
    assert_eq!(desk.release(&first), ReleaseStarted::HandedOn);
    desk.acquire(2, reader());
    desk.nobody_is_done();
    assert_ne!(desk.next_enter().0.token, second.token);
}

/// Without a writer they continue to share the lease.
#[test]
fn elsewhere_readers_join_after_one_has_left() {
    let mut desk = Desk::new();
    let first = desk.hold(reader());
    desk.acquire(1, reader());
    desk.acquired();
    desk.release(&first);
    desk.acquire(2, reader());
    assert_eq!(desk.acquired().token, first.token);
    desk.quiet();
}

#[test]
pub(super) fn no_reader_joins_those_whose_end_a_writer_elsewhere_waits_for() {
    let mut desk = Desk::new();
    let first = desk.hold(reader());
    desk.push(Push::Wanted { key: desk.key.clone(), token: first.token });
    desk.quiet();
    desk.acquire(1, reader());
    desk.nobody_is_done();
    let (context, ..) = desk.next_enter();
    assert_ne!(context.token, first.token);
    desk.busy_behind(context, "dl1:s", Place::Behind);
    assert_eq!(desk.release(&first), ReleaseStarted::Sent);
}

/// The push may come before the reply to the command that got the lease.
#[test]
fn a_writer_that_is_heard_of_early_counts_for_the_lease_that_is_on_its_way() {
    let mut desk = Desk::new();
    desk.acquire(0, reader());
    desk.acquire(1, reader());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.push(Push::Wanted { key: desk.key.clone(), token });
    desk.fresh(context);
    let [first, _second] = [desk.acquired(), desk.acquired()];
    desk.release(&first);
    desk.acquire(2, reader());
    desk.nobody_is_done();
    assert_ne!(desk.next_enter().0.token, token);
}

#[test]
fn no_reader_passes_a_writer_that_waits_here() {
    let mut desk = Desk::new();
    desk.hold(reader());
    desk.acquire(1, want());
    let (context, ..) = desk.next_enter();
    desk.busy_behind(context, "dl1:s", Place::First);
    desk.acquire(2, reader());
    desk.nobody_is_done();
    desk.quiet();
}

#[test]
fn readers_who_stand_side_by_side_come_in_together() {
    let mut desk = Desk::new();
    let writer = desk.hold(want());
    desk.acquire(1, reader());
    desk.acquire(2, reader());
    desk.acquire(3, want());
    desk.acquire(4, reader());
    desk.release(&writer);
    desk.next_leave();
    let (context, ..) = desk.next_enter();
    desk.fresh(context);
    assert_eq!(desk.acquired().token, desk.acquired().token);
    desk.nobody_is_done();
}

#[test]
fn the_last_reader_leaves() {
    let mut desk = Desk::new();
    let first = desk.hold(reader());
    desk.acquire(1, reader());
    let second = desk.acquired();
    assert_eq!(desk.release(&first), ReleaseStarted::HandedOn);
    desk.quiet();
    assert_eq!(desk.release(&second), ReleaseStarted::Sent);
    assert_eq!(desk.next_leave().0.token, first.token);
}

#[test]
fn a_lease_that_was_taken_is_lost_for_all_its_readers() {
    let mut desk = Desk::new();
    desk.hold(reader());
    desk.acquire(1, reader());
    desk.acquired();
    desk.sleep();
    let (context, op) = desk.next();
    assert!(matches!(op, Command::Renew(..)), "{op:?}");
    desk.answer(context, Ok(RenewReply::NotHeld));
    assert_eq!(desk.lost, [LostReason::Taken, LostReason::Taken]);
}

/// Without this, a timer of the attempt that was made for them fired without end.
#[test]
fn an_attempt_for_readers_who_came_in_otherwise_is_given_up() {
    let mut desk = Desk::new();
    let first = desk.hold(reader());
    let long = desk.acquire(1, Want { renewal: Renewal::Never, ttl: ms(20_000), ..reader() });
    let (context, ..) = desk.next_enter();
    let attempt = context.token;
    desk.busy_behind(context, "dl1:s", Place::Behind);
    desk.acquire(2, reader());
    desk.nobody_is_done();
    desk.cancel(long);
    assert_eq!(desk.acquired().token, first.token);
    assert_eq!(desk.next_leave().0.token, attempt);
    assert!(!desk.engine.look(&desk.key, |machine| machine.knows(&desk.key, attempt)));
}

#[test]
fn readers_who_leave_do_not_put_the_renewal_off() {
    let mut desk = Desk::new();
    desk.hold(reader());
    let cells: Vec<_> = (1..12)
        .map(|who| {
            desk.acquire(who, reader());
            desk.acquired()
        })
        .collect();
    desk.pass(ms(3_150));
    for cell in cells {
        desk.pass(ms(50));
        desk.release(&cell);
        desk.timer();
    }
    assert!(matches!(desk.next().1, Command::Renew(..)));
}

#[test]
fn a_minimal_hold_outlives_those_who_read_along() {
    let mut desk = Desk::new();
    let first = desk.hold(Want { min_hold: Some(ms(500)), ..reader() });
    desk.acquire(1, Want { max_hold: Some(ms(50)), ..reader() });
    let second = desk.acquired();
    desk.release(&first);
    desk.quiet();
    desk.pass(ms(50));
    assert_eq!(desk.release(&second), ReleaseStarted::WasLost(LostReason::MaxHold));
    assert_eq!(desk.next_leave().1, Some(ms(450)));
}

/// Readers of another process have the lock, and the plain command of a writer is in flight. Answers it. Returns the
/// command that follows: that of the readers who came behind the writer.
fn asks_behind_a_writer_turned_away(desk: &mut Desk, readers: &[WaitLimit]) -> (Sent, AcquireMode) {
    desk.acquire(0, Want { wait_limit: WaitLimit::Once, ..want() });
    for (who, wait_limit) in (1..).zip(readers) {
        desk.acquire(who, Want { wait_limit: *wait_limit, ..reader() });
    }
    let (context, _) = desk.next();
    desk.busy_behind(context, "dl1:s", Place::Behind);
    assert!(matches!(desk.outcome(), (0, Outcome::Busy { .. })));
    desk.nobody_is_done();
    let (context, mode, _) = desk.next_enter();
    assert!(
        matches!(&context.command, Command::Acquire(_, Ask::Full(op)) if op.kind == LockKind::Shared),
        "{context:?}"
    );
    desk.quiet();
    (context, mode)
}

#[test]
fn readers_behind_a_writer_that_is_turned_away_ask_for_themselves() {
    for (readers, expected) in [
        ([WaitLimit::Once, WaitLimit::Once], AcquireMode::Try),
        ([WaitLimit::Once, WaitLimit::Forever], AcquireMode::Wait),
        ([WaitLimit::Forever, WaitLimit::Once], AcquireMode::Wait),
    ] {
        let mut desk = Desk::new();
        let (context, mode) = asks_behind_a_writer_turned_away(&mut desk, &readers);
        assert_eq!(mode, expected);
        desk.fresh(context);
        assert_eq!(desk.acquired().token, desk.acquired().token);
        desk.quiet();
    }
}

#[test]
fn a_reader_that_does_not_wait_is_turned_away_with_the_one_that_asks() {
    let mut desk = Desk::new();
    let (context, _) = asks_behind_a_writer_turned_away(&mut desk, &[WaitLimit::Once]);
    desk.busy(context);
    assert!(matches!(desk.outcome(), (1, Outcome::Busy { .. })));
    desk.quiet();
    assert_eq!(desk.engine.rest(), 0);
}

/// A writer that waits lets no reader pass.
#[test]
fn a_reader_that_does_not_wait_is_turned_away_behind_a_writer_that_does() {
    let mut desk = Desk::new();
    desk.acquire(0, want());
    desk.acquire(1, Want { wait_limit: WaitLimit::Once, ..reader() });
    let (context, _) = desk.next();
    desk.busy_behind(context, "dl1:s", Place::Behind);
    assert!(matches!(desk.outcome(), (1, Outcome::Busy { .. })));
    assert_eq!(desk.next_enter().1, AcquireMode::Wait);
    desk.quiet();
}

/// The readers of a manager with another prefix have the lock: a reader cannot join them, but a writer waits for them.
#[test]
pub(super) fn a_writer_behind_readers_who_are_told_of_another_kind_waits() {
    let mut desk = Desk::new();
    desk.acquire(0, reader());
    desk.acquire(1, want());
    desk.acquire(2, reader());
    let (context, ..) = desk.next_enter();
    desk.answer(context, Ok(AcquireReply::WrongKind { found: "a shared lock".into() }));
    for reader in [0, 2] {
        let (who, outcome) = desk.outcome();
        assert!(who == reader && matches!(outcome, Outcome::WrongKind { .. }), "{who}: {outcome:?}");
    }
    desk.nobody_is_done();
    desk.next_leave();
    let (context, op) = desk.next();
    assert!(matches!(op, Command::Acquire(_, Ask::Plain(_))), "{op:?}");
    desk.busy(context);
    let (context, mode, _) = desk.next_enter();
    assert_eq!(mode, AcquireMode::Wait);
    desk.fresh(context);
    assert!(matches!(desk.outcome(), (1, Outcome::Acquired(_))));
}
