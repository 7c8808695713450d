//! A lock that was granted and that its requester has not noticed is not renewed.

use super::*;
use crate::protocol::LockKind;

/// The requester has not noticed that request 0 holds the lock.
fn granted(desk: &mut Desk, want: Want) -> Arc<LeaseCell> {
    desk.acquire(0, want);
    let (context, _) = desk.next();
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::Acquired { server_time, fence: None }));
    desk.unclaimed()
}

#[test]
fn it_is_not_renewed_and_ends_with_its_ttl() {
    let mut desk = Desk::new();
    let cell = granted(&mut desk, want());
    let until = desk.until(&cell);
    desk.sleep();
    assert_eq!(desk.now, until);
    assert_eq!(cell.peek(desk.now), CellState::Lost(LostReason::Expired));
    // It is released at once: no body has to end first.
    assert_eq!(desk.next_leave().0.token, cell.token);
    // The end is not reported as a loss, because the requester never noticed the grant, but as a lock that was not
    // taken up.
    assert!(desk.lost.is_empty());
    assert_eq!(desk.not_taken, [desk.now.duration_since(cell.held_since)]);
    desk.release(&cell);
    desk.quiet();
}

/// Request 1, which wants a short lease, has been handed the long one of request 0, and has not noticed.
fn handed_on(desk: &mut Desk, kind: LockKind) -> Arc<LeaseCell> {
    desk.acquire(0, Want { kind, ..want() });
    let (context, _) = desk.next();
    desk.fresh(context);
    let (_, outcome) = desk.outcome();
    let Outcome::Acquired(first) = outcome else { panic!("{outcome:?}") };
    first.claim(desk.now);
    desk.acquire(1, Want { kind, ttl: ms(600), ..want() });
    desk.release(&first);
    desk.unclaimed()
}

#[test]
fn on_a_longer_lease_it_ends_with_its_own_ttl() {
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        let mut desk = Desk::new();
        let cell = handed_on(&mut desk, kind);
        let granted = cell.held_since;
        while matches!(cell.peek(desk.now), CellState::Until(_)) {
            desk.now = desk.now.max(desk.engine.next_due().unwrap());
            desk.timer();
        }
        assert_eq!(desk.now, granted.after(ms(600)), "{kind}");
        assert_eq!(desk.next_leave().0.token, cell.token, "{kind}");
        assert_eq!(desk.not_taken, [ms(600)], "{kind}");
        desk.quiet();
    }
}

#[test]
fn on_a_longer_lease_it_is_renewed_once_it_was_noticed() {
    for late in [1, 200, 450] {
        let mut desk = Desk::new();
        let cell = handed_on(&mut desk, LockKind::Exclusive);
        let noticed = desk.now.after(ms(late));
        while let Some(due) = desk.engine.next_due().filter(|due| *due < noticed) {
            desk.now = desk.now.max(due);
            desk.timer();
        }
        desk.quiet();
        desk.now = noticed;
        cell.claim(noticed);
        desk.sleep();
        let (context, command) = desk.next();
        assert!(matches!(command, Command::Renew(..)), "after {late} ms");
        let server_time = desk.server_time();
        desk.answer(context, Ok(RenewReply::Renewed { server_time }));
        assert!(desk.until(&cell) > cell.held_since.after(ms(600)), "after {late} ms");
    }
}

/// The other holders renew the lease that it shares, but do not keep its hold, and do not renew more often because of
/// it.
#[test]
fn a_reader_that_others_renew_for_ends_with_its_own_ttl() {
    let mut desk = Desk::new();
    let reader = || Want { kind: LockKind::Shared, ..want() };
    let stuck = granted(&mut desk, reader());
    desk.acquire(1, reader());
    desk.acquired();
    let granted = stuck.held_since;
    let mut renewals = 0;
    while desk.now < granted.after(ms(12_000)) {
        desk.now = desk.now.max(desk.engine.next_due().unwrap());
        desk.timer();
        while let Some((context, command)) = desk.sent.pop_front() {
            assert!(matches!(command, Command::Renew(..)));
            renewals += 1;
            let server_time = desk.server_time();
            desk.answer(context, Ok(RenewReply::Renewed { server_time }));
        }
        let is_held = matches!(stuck.peek(desk.now), CellState::Until(_));
        assert_eq!(is_held, desk.now < granted.after(want().ttl));
    }
    assert!(renewals <= 8, "{renewals}");
    assert_eq!(desk.not_taken.len(), 1);
}

#[test]
fn the_next_waiter_here_asks_for_it_then() {
    let mut desk = Desk::new();
    let cell = granted(&mut desk, want());
    desk.acquire(1, want());
    desk.sleep();
    assert_eq!(desk.next_leave().0.token, cell.token);
    let (context, _) = desk.next();
    desk.fresh(context);
    assert!(matches!(desk.outcome(), (1, Outcome::Acquired(_))));
}

#[test]
fn a_grant_lasts_a_ttl_and_no_longer() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.pass(ms(1));
    desk.grant(token, desk.server_time(), None);
    let (cell, granted) = (desk.unclaimed(), desk.now);
    let mut renewals = 0;
    while matches!(cell.peek(desk.now), CellState::Until(_)) {
        let due = desk.engine.next_due().unwrap();
        desk.now = desk.now.max(due);
        desk.timer();
        while let Some((context, op)) = desk.sent.pop_front() {
            let server_time = desk.server_time();
            if matches!(op, Command::Renew(..)) {
                renewals += 1;
                desk.answer(context, Ok(RenewReply::Renewed { server_time }));
            }
        }
    }
    assert_eq!(renewals, 1);
    let lasted = desk.now.duration_since(granted);
    assert!(lasted >= ms(9_000) && lasted <= ms(10_200), "{lasted:?}");
}

#[test]
fn noticed_in_time_it_is_renewed() {
    for late in [1, 5_000, 9_000] {
        let mut desk = Desk::new();
        let cell = granted(&mut desk, want());
        let noticed = desk.now.after(ms(late));
        while let Some(due) = desk.engine.next_due().filter(|due| *due < noticed) {
            desk.now = desk.now.max(due);
            desk.timer();
        }
        desk.quiet();
        desk.now = noticed;
        cell.claim(noticed);
        desk.sleep();
        assert!(matches!(desk.next().1, Command::Renew(..)), "after {late} ms");
        desk.until(&cell);
    }
}

#[test]
fn looking_at_it_again_and_again_is_no_hot_loop() {
    let mut desk = Desk::new();
    let cell = granted(&mut desk, want());
    let mut ticks = 0;
    while matches!(cell.peek(desk.now), CellState::Until(_)) {
        desk.now = desk.now.max(desk.engine.next_due().unwrap());
        desk.timer();
        ticks += 1;
    }
    assert!(ticks < 40, "{ticks}");
}

#[test]
fn no_body_has_run_that_it_would_be_kept_for() {
    let wanted = Want { min_hold: Some(ms(20_000)), ..want() };
    for kind in [LockKind::Exclusive, LockKind::Limited { max_holders: 2 }] {
        let mut desk = Desk::new();
        granted(&mut desk, Want { kind, ..wanted.clone() });
        desk.sleep();
        assert_eq!(desk.next_leave().1, None, "{kind}");
        let mut desk = Desk::new();
        let cell = granted(&mut desk, Want { kind, ..wanted.clone() });
        desk.release(&cell);
        assert_eq!(desk.next_leave().1, None, "{kind}");
    }
}

#[test]
fn readers_who_notice_keep_it_alive() {
    let mut desk = Desk::new();
    let reader = || Want { kind: LockKind::Shared, ..want() };
    granted(&mut desk, reader());
    desk.acquire(1, reader());
    desk.acquired();
    desk.sleep();
    assert!(matches!(desk.next().1, Command::Renew(..)));
}
