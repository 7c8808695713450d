use super::*;
use crate::backend::Kind;

#[test]
fn a_lease_is_renewed_when_two_thirds_are_left() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    let slept = desk.sleep();
    assert!(slept >= ms(3_100) && slept <= ms(3_300), "{slept:?}");
    let (context, op) = desk.next();
    assert_eq!(op, Op::Renew { token: cell.token, kind: Kind::Exclusive, ttl: TTL });
    let asked = desk.now;
    desk.pass(ms(3));
    let us = desk.us();
    desk.answer(context, Ok(Reply::Renewed { us }));
    assert_eq!(desk.until(&cell), asked.after(ms(10_000 - 100 - 2)));
}

#[test]
fn a_grant_is_renewed_soon() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.pass(ms(1));
    desk.grant(token, desk.us(), None);
    desk.acquired();
    assert!(desk.sleep() <= ms(100));
    assert!(matches!(desk.next().1, Op::Renew { .. }));
}

#[test]
fn an_unanswered_renewal_is_repeated() {
    let mut desk = Desk::new();
    desk.hold(want());
    desk.sleep();
    desk.next();
    assert!(desk.sleep() <= TTL / 6);
    assert!(matches!(desk.next().1, Op::Renew { .. }));
}

#[test]
fn an_extension_never_shortens() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    let until = desk.until(&cell);
    let (held, effects) = desk.engine.extend(desk.now, &cell, ms(1_000));
    assert!(held);
    desk.take(effects);
    let (context, _) = desk.next();
    let us = desk.us();
    desk.answer(context, Ok(Reply::Renewed { us }));
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
