use super::*;
use crate::protocol::LockKind;

#[test]
fn a_lease_is_renewed_when_two_thirds_are_left() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    let slept = desk.sleep();
    assert!(slept >= ms(3_100) && slept <= ms(3_300), "{slept:?}");
    let (context, op) = desk.next();
    let Command::Renew(_, op) = op else { panic!("{op:?}") };
    assert_eq!(op, op::Renew { token: cell.token, kind: LockKind::Exclusive, ttl: TTL, last: false });
    let asked = desk.now;
    desk.pass(ms(3));
    let server_time = desk.server_time();
    desk.answer(context, Ok(RenewReply::Renewed { server_time }));
    assert_eq!(desk.until(&cell), asked.after(ms(10_000 - 100 - 2)));
}

#[test]
fn a_grant_is_renewed_soon() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.pass(ms(1));
    desk.grant(token, desk.server_time(), None);
    desk.acquired();
    assert!(desk.sleep() <= ms(100));
    assert!(matches!(desk.next().1, Command::Renew(..)));
}

#[test]
fn an_unanswered_renewal_is_repeated() {
    let mut desk = Desk::new();
    desk.hold(want());
    desk.sleep();
    desk.next();
    assert!(desk.sleep() <= TTL / 6);
    assert!(matches!(desk.next().1, Command::Renew(..)));
}

#[test]
fn an_extension_never_shortens() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    let until = desk.until(&cell);
    let (held, effects) = desk.engine.on_key(desk.now, &cell.key, |step| step.extend(&cell, ms(1_000)));
    assert!(held);
    desk.take(effects);
    let (context, _) = desk.next();
    let server_time = desk.server_time();
    desk.answer(context, Ok(RenewReply::Renewed { server_time }));
    assert_eq!(desk.until(&cell), until);
}

#[test]
fn nothing_is_renewed_that_the_holder_does_not_want() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { renewal: Renewal::Never, ..want() });
    let until = desk.until(&cell);
    desk.sleep();
    desk.quiet();
    assert_eq!(desk.now, until);
    assert_eq!(desk.lost, [LostReason::Expired]);
}

#[test]
fn a_lock_taken_away_from_here_is_asked_about_at_once() {
    let capped = Want { max_hold: Some(ms(5_000)), ..want() };
    let unrenewed = Want { renewal: Renewal::Never, ..want() };
    for held in [want(), capped, unrenewed] {
        let mut desk = Desk::new();
        let cell = desk.hold(held);
        desk.pass(ms(5));
        let until = desk.until(&cell);
        // This has no effect while the lease is ours.
        desk.ask_whether_held();
        let (context, op) = desk.next();
        assert!(matches!(op, Command::Renew(_, op::Renew { token, .. }) if token == cell.token), "{op:?}");
        let server_time = desk.server_time();
        desk.answer(context, Ok(RenewReply::Renewed { server_time }));
        assert!(desk.until(&cell) >= until);
        desk.ask_whether_held();
        let (context, _) = desk.next();
        let confirmation = desk.confirmed(context, Ok(RenewReply::NotHeld));
        assert!(matches!(confirmation, Err(Failed::Lost(LostReason::Taken))));
        assert_eq!(desk.lost, [LostReason::Taken]);
        desk.quiet();
    }
}

#[test]
fn asking_about_a_lock_that_is_not_renewed_does_not_extend_it() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { max_hold: Some(ms(5_000)), ..want() });
    let until = desk.until(&cell);
    desk.pass(ms(5));
    desk.ask_whether_held();
    let (context, op) = desk.next();
    assert!(matches!(op, Command::Renew(_, op::Renew { ttl, .. }) if ttl <= ms(1)), "{op:?}");
    let server_time = desk.server_time();
    desk.answer(context, Ok(RenewReply::Renewed { server_time }));
    assert_eq!(desk.until(&cell), until);
}

#[test]
fn a_key_that_is_not_held_is_not_asked_about() {
    let mut desk = Desk::new();
    desk.ask_whether_held();
    desk.quiet();
    desk.queue(want());
    desk.ask_whether_held();
    desk.quiet();
}

#[test]
fn later_renewals_use_the_ttl_of_an_extension() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    let (_, effects) = desk.engine.on_key(desk.now, &cell.key, |step| step.extend(&cell, TTL * 3));
    desk.take(effects);
    let (context, _) = desk.next();
    let server_time = desk.server_time();
    desk.answer(context, Ok(RenewReply::Renewed { server_time }));
    desk.sleep();
    let (_, op) = desk.next();
    assert!(matches!(op, Command::Renew(_, op::Renew { ttl, .. }) if ttl == TTL * 3), "{op:?}");
}

#[test]
fn a_lease_that_is_not_renewed_is_not_extended_by_the_renewals_of_others() {
    let mut desk = Desk::new();
    let reader = |renewal| Want { kind: LockKind::Shared, renewal, ..want() };
    desk.hold(reader(Renewal::Keep));
    desk.acquire(1, reader(Renewal::Never));
    let unrenewed = desk.acquired();
    let until = desk.until(&unrenewed);
    desk.sleep();
    let (context, _) = desk.next();
    let server_time = desk.server_time();
    desk.answer(context, Ok(RenewReply::Renewed { server_time }));
    assert_eq!(desk.until(&unrenewed), until);
}
