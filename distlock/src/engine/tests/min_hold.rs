//! `min_hold` counts from the acquisition, for every way in which a hold ends.

use super::*;
use crate::protocol::LockKind;

fn held_for(min: u64) -> Want {
    Want { min_hold: Some(ms(min)), ..want() }
}

fn kinds() -> [LockKind; 2] {
    [LockKind::Exclusive, LockKind::Limited { max_holders: 2 }]
}

#[test]
fn it_outlives_a_loss_by_max_hold() {
    for kind in kinds() {
        let mut desk = Desk::new();
        let cell = desk.hold(Want { kind, max_hold: Some(ms(500)), ..held_for(4_000) });
        desk.sleep();
        assert_eq!(desk.lost, [LostReason::MaxHold]);
        // The body still runs for a moment: the lease covers this time.
        desk.quiet();
        desk.pass(ms(100));
        assert_eq!(desk.release(&cell), ReleaseStarted::WasLost(LostReason::MaxHold));
        assert_eq!(desk.next_leave().1, Some(ms(3_400)), "{kind}");
        desk.quiet();
    }
}

#[test]
fn it_outlives_a_shutdown() {
    for kind in kinds() {
        let mut desk = Desk::new();
        let cell = desk.hold(Want { kind, ..held_for(4_000) });
        desk.pass(ms(200));
        let effects = desk.engine.on_every_key(desk.now, |step| step.lose_all(LostReason::Shutdown));
        desk.take(effects);
        assert_eq!(desk.release(&cell), ReleaseStarted::WasLost(LostReason::Shutdown));
        assert_eq!(desk.next_leave().1, Some(ms(3_800)), "{kind}");
        desk.quiet();
    }
}

/// The lease ends on the server a little later than here.
#[test]
fn it_outlives_a_lease_that_ends_before_it() {
    for kind in kinds() {
        let mut desk = Desk::new();
        let cell = desk.hold(Want { kind, renewal: Renewal::Never, ..held_for(10_000) });
        desk.sleep();
        assert_eq!(desk.lost, [LostReason::Expired]);
        assert_eq!(desk.next_leave().1, Some(ms(102)), "{kind}");
        // It was released already, before the body ended.
        assert_eq!(desk.release(&cell), ReleaseStarted::WasLost(LostReason::Expired));
        desk.quiet();
    }
}

/// A body that ignores the loss would outlast the lease, which is no longer renewed.
#[test]
fn it_does_not_wait_for_a_body_that_may_outlast_the_lease() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { max_hold: Some(ms(500)), ..held_for(60_000) });
    desk.sleep();
    assert_eq!(desk.next_leave().1, Some(ms(59_500)));
    desk.pass(ms(20_000));
    desk.release(&cell);
    desk.quiet();
}

#[test]
fn readers_who_lose_their_lease_keep_it_for_the_longest_of_them() {
    let mut desk = Desk::new();
    let first = desk.hold(Want { kind: LockKind::Shared, ..held_for(4_000) });
    desk.acquire(1, Want { kind: LockKind::Shared, ..held_for(1_000) });
    let second = desk.acquired();
    desk.pass(ms(200));
    let effects = desk.engine.on_every_key(desk.now, |step| step.lose_all(LostReason::Shutdown));
    desk.take(effects);
    let (context, keep_taken_for) = desk.next_leave();
    assert_eq!(keep_taken_for, Some(ms(3_800)));
    desk.answer(context, Ok(ReleaseReply::Released { gap: false }));
    for cell in [first, second] {
        desk.release(&cell);
    }
    // `min_hold` does not apply, because the key is no longer ours.
    assert!(
        desk.sent
            .iter()
            .all(|(_, op)| matches!(op, Command::Release(_, op::Release { keep_taken_for: None, .. }))),
        "{:?}",
        desk.sent
    );
}

#[test]
fn a_lock_that_was_taken_away_is_not_kept() {
    let mut desk = Desk::new();
    let cell = desk.hold(held_for(9_000));
    desk.sleep();
    let (renewal, _) = desk.next();
    desk.answer(renewal, Ok(RenewReply::NotHeld));
    desk.release(&cell);
    desk.quiet();
}

#[test]
fn a_loss_after_it_is_over_keeps_nothing() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { max_hold: Some(ms(500)), ..held_for(400) });
    desk.sleep();
    desk.release(&cell);
    assert_eq!(desk.next_leave().1, None);
}

/// A heartbeat acquired the lock again with the token of a lease that had ended.
#[test]
fn it_is_kept_by_a_command_that_took_the_lock_anew() {
    let mut desk = Desk::new();
    let token = desk.queue(held_for(4_000));
    desk.sleep();
    let (heartbeat, ..) = desk.next_enter();
    desk.grant(token, desk.server_time(), None);
    desk.acquired();
    desk.pass(ms(1));
    desk.fresh(heartbeat);
    assert_eq!(desk.lost, [LostReason::Expired]);
    let holds: Vec<_> = desk
        .sent
        .iter()
        .map(|(_, op)| matches!(op, Command::Release(_, op::Release { keep_taken_for: Some(_), .. })))
        .collect();
    assert!(!holds.is_empty() && holds.iter().all(|kept| *kept), "{:?}", desk.sent);
}

#[test]
fn it_outlives_an_answer_that_comes_after_the_loss() {
    let mut desk = Desk::new();
    let want = Want { max_hold: Some(ms(500)), ..held_for(2_000) };
    let token = desk.queue(want);
    desk.link(&LinkEvent::Notifications(Notifications::On));
    let (late, ..) = desk.next_enter();
    desk.link(&LinkEvent::Notifications(Notifications::On));
    let (answered, ..) = desk.next_enter();
    desk.busy(answered);
    desk.grant(token, desk.server_time(), None);
    let cell = desk.acquired();
    desk.pass(ms(600));
    let server_time = Some(desk.server_time());
    desk.answer(late, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    // The lease stays until the body has ended.
    desk.quiet();
    desk.release(&cell);
    assert_eq!(desk.next_leave().1, Some(ms(1_400)));
}

/// Pushes are doubled and forged. The release at the end of the body follows, so the lease needs no other.
#[test]
fn a_doubled_grant_does_not_end_the_lease_of_a_body_that_ignores_its_loss() {
    for (want, kept) in [(held_for(2_000), Some(ms(1_400))), (want(), None)] {
        let mut desk = Desk::new();
        let token = desk.queue(Want { max_hold: Some(ms(500)), ..want });
        let granted = desk.server_time();
        desk.grant(token, granted, None);
        let cell = desk.acquired();
        desk.pass(ms(600));
        desk.grant(token, granted, None);
        assert_eq!(desk.lost, [LostReason::MaxHold]);
        desk.quiet();
        desk.release(&cell);
        assert_eq!(desk.next_leave().1, kept);
        // From now on nothing else releases it.
        desk.grant(token, granted, None);
        assert_eq!(desk.next_leave().1, kept);
    }
}

/// The server counts in whole milliseconds.
#[test]
fn it_is_not_cut_short_by_a_part_of_a_millisecond() {
    let mut desk = Desk::new();
    let cell = desk.hold(held_for(500));
    desk.pass(Duration::from_micros(100_900));
    desk.release(&cell);
    assert_eq!(desk.next_leave().1, Some(ms(400)));
}
