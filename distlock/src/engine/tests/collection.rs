//! Several keys: until all are acquired they are renewed, and the time limits of the request count from then.

use super::*;
use crate::collection::KeyCollection;

struct Several {
    collection: Arc<KeyCollection>,
    cell: Arc<LeaseCell>,
}

/// The first of several keys is acquired; the time limits of the request count later.
fn first_of(desk: &mut Desk) -> Several {
    let collection: Arc<KeyCollection> = Arc::default();
    collection.asks();
    let cell = desk.hold(Want { collection: Some(collection.clone()), ..want() });
    collection.looked();
    Several { collection, cell }
}

/// Passes the time and answers renewals. Returns how many there were.
fn renew_for(desk: &mut Desk, d: Duration) -> usize {
    let (end, mut renewals) = (desk.now.after(d), 0);
    while let Some(due) = desk.engine.next_due().filter(|due| *due < end) {
        desk.now = desk.now.max(due);
        desk.timer();
        while let Some((context, op)) = desk.sent.pop_front() {
            assert!(matches!(op, Command::Renew(..)), "{op:?}");
            renewals += 1;
            let server_time = desk.server_time();
            desk.answer(context, Ok(RenewReply::Renewed { server_time }));
        }
    }
    desk.now = end;
    renewals
}

fn begin(desk: &mut Desk, cell: &LeaseCell, want: &Want) {
    let ((), effects) = desk.engine.on_key(desk.now, &cell.key, |step| step.begin_hold(cell, want));
    desk.take(effects);
}

#[test]
fn what_is_in_hand_is_kept_alive_while_others_are_awaited() {
    let mut desk = Desk::new();
    let Several { cell, .. } = first_of(&mut desk);
    assert!(renew_for(&mut desk, ms(60_000)) >= 15);
    desk.until(&cell);
}

#[test]
fn what_nobody_looks_after_any_more_is_not() {
    let mut desk = Desk::new();
    let Several { collection, cell } = first_of(&mut desk);
    collection.asks();
    // The second key is granted, and the requester does not notice.
    let key = std::mem::replace(&mut desk.key, "l".into());
    let second = Want { collection: Some(collection.clone()), ..want() };
    desk.acquire(2, second);
    let (context, _) = desk.next();
    desk.fresh(context);
    desk.unclaimed();
    desk.key = key;
    let until = desk.until(&cell);
    desk.sleep();
    assert_eq!(desk.now, until);
    assert_eq!(cell.peek(desk.now), CellState::Lost(LostReason::Expired));
}

#[test]
fn what_was_looked_at_late_is_kept_alive_again() {
    let mut desk = Desk::new();
    let Several { collection, cell } = first_of(&mut desk);
    collection.answered();
    renew_for(&mut desk, ms(8_000));
    collection.looked();
    assert!(renew_for(&mut desk, ms(20_000)) > 3);
    desk.until(&cell);
}

#[test]
fn max_hold_counts_from_the_guard() {
    let mut desk = Desk::new();
    let Several { cell, .. } = first_of(&mut desk);
    renew_for(&mut desk, ms(30_000));
    let began = desk.now;
    begin(&mut desk, &cell, &Want { max_hold: Some(ms(400)), ..want() });
    desk.sleep();
    assert_eq!((desk.now, &*desk.lost), (began.after(ms(400)), &[LostReason::MaxHold][..]));
}

#[test]
fn min_hold_counts_from_the_guard() {
    let mut desk = Desk::new();
    let Several { cell, .. } = first_of(&mut desk);
    renew_for(&mut desk, ms(30_000));
    begin(&mut desk, &cell, &Want { min_hold: Some(ms(400)), ..want() });
    desk.pass(ms(100));
    desk.release(&cell);
    assert_eq!(desk.next_leave().1, Some(ms(300)));
}

#[test]
fn the_ttl_of_a_guard_that_is_not_renewed_counts_from_the_guard() {
    let mut desk = Desk::new();
    let Several { cell, .. } = first_of(&mut desk);
    renew_for(&mut desk, ms(32_000));
    let (began, unrenewed) = (desk.now, Want { renewal: Renewal::Never, ..want() });
    begin(&mut desk, &cell, &unrenewed);
    // The lease is extended once, to its whole ttl.
    let (context, op) = desk.next();
    assert!(matches!(op, Command::Renew(_, op::Renew { ttl: TTL, .. })), "{op:?}");
    desk.pass(ms(5));
    let server_time = desk.server_time();
    desk.answer(context, Ok(RenewReply::Renewed { server_time }));
    let end = began.after(ms(10_000 - 100 - 2));
    assert_eq!(desk.until(&cell), end);
    // And not again.
    desk.sleep();
    desk.quiet();
    assert_eq!((desk.now, &*desk.lost), (end, &[LostReason::Expired][..]));
}

#[test]
fn a_ttl_that_is_hardly_used_is_not_extended() {
    let mut desk = Desk::new();
    let Several { cell, .. } = first_of(&mut desk);
    desk.pass(ms(50));
    let until = desk.until(&cell);
    begin(&mut desk, &cell, &Want { renewal: Renewal::Never, ..want() });
    desk.quiet();
    assert_eq!(desk.until(&cell), until);
}

#[test]
fn a_guard_that_was_lost_before_it_existed_begins_nothing() {
    let mut desk = Desk::new();
    let Several { cell, .. } = first_of(&mut desk);
    desk.down();
    desk.sleep();
    desk.lost.clear();
    begin(&mut desk, &cell, &Want { min_hold: Some(ms(400)), max_hold: Some(ms(400)), ..want() });
    desk.quiet();
    assert_eq!(cell.peek(desk.now), CellState::Lost(LostReason::Expired));
}
