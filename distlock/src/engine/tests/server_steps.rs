use super::*;

/// The server's clock as of now, set forward by `by`.
fn stepped(desk: &Desk, by: Duration) -> ServerTime {
    let ServerTime(server_time) = desk.server_time();
    ServerTime(server_time + u64::try_from(by.as_micros()).unwrap())
}

/// A process that has heard the server's time, and holds the lock without renewing it.
fn holding(desk: &mut Desk) -> Arc<LeaseCell> {
    desk.hold(Want { renewal: Renewal::Never, fenced: true, ..want() })
}

#[test]
fn a_step_forward_in_a_reply_brings_deadlines_forward() {
    let mut desk = Desk::new();
    let cell = holding(&mut desk);
    let until = desk.until(&cell);
    desk.pass(ms(10));
    let other: Arc<str> = "other".into();
    let (_, effects) = desk.engine.on_key(desk.now, &other, |step| step.acquire(fenced(), 5));
    desk.take(effects);
    let (context, ..) = desk.next_enter();
    let server_time = Some(stepped(&desk, ms(4_000)));
    desk.answer(context, Ok(AcquireReply::Acquired { server_time, fence: Some(1) }));
    let moved = until.duration_since(desk.until(&cell));
    assert!(moved > ms(3_990) && moved <= ms(4_000), "{moved:?}");
}

#[test]
fn a_step_forward_in_a_push_brings_deadlines_forward() {
    let mut desk = Desk::new();
    let cell = holding(&mut desk);
    let until = desk.until(&cell);
    desk.pass(ms(10));
    desk.grant(Token(99), stepped(&desk, ms(4_000)), None);
    let moved = until.duration_since(desk.until(&cell));
    assert!(moved > ms(3_990) && moved <= ms(4_000), "{moved:?}");
}

#[test]
fn a_step_beyond_the_deadline_is_a_loss() {
    let mut desk = Desk::new();
    holding(&mut desk);
    desk.pass(ms(10));
    desk.grant(Token(99), stepped(&desk, TTL), None);
    assert_eq!(desk.lost, [LostReason::Expired]);
}

#[test]
fn after_a_step_backward_grants_are_confirmed() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.pass(ms(10));
    let other: Arc<str> = "other".into();
    let (_, effects) = desk.engine.on_key(desk.now, &other, |step| step.acquire(fenced(), 5));
    desk.take(effects);
    let (context, ..) = desk.next_enter();
    let ServerTime(server_time) = desk.server_time();
    desk.answer(
        context,
        Ok(AcquireReply::Acquired {
            server_time: Some(ServerTime(server_time - 60_000_000)),
            fence: Some(1),
        }),
    );
    desk.acquired();
    desk.sent.clear();
    desk.grant(token, ServerTime(server_time - 60_000_000), None);
    desk.nobody_is_done();
    assert_eq!(desk.next_enter().0.token, token);
}

#[test]
fn a_reply_from_before_a_step_that_is_noticed_after_it_is_shortened_too() {
    let mut desk = Desk::new();
    let known = desk.hold(fenced());
    desk.release(&known);
    desk.next_leave();
    let ask = |desk: &mut Desk, key: &str| {
        let (_, effects) = desk.engine.on_key(desk.now, &key.into(), |step| step.acquire(fenced(), 5));
        desk.take(effects);
        desk.next_enter().0
    };
    let early = ask(&mut desk, "a");
    let asked = early.sent;
    let executed = Some(desk.server_time());
    desk.pass(ms(2));
    let late = ask(&mut desk, "b");
    desk.pass(ms(2));
    let server_time = Some(stepped(&desk, ms(4_000)));
    desk.answer(late, Ok(AcquireReply::Acquired { server_time, fence: Some(9) }));
    desk.acquired();
    desk.answer(early, Ok(AcquireReply::Acquired { server_time: executed, fence: Some(8) }));
    let cell = desk.acquired();
    let shortened = asked.after(ms(10_000 - 100 - 2)).duration_since(desk.until(&cell));
    assert!(shortened > ms(3_980) && shortened <= ms(4_000), "{shortened:?}");
}

#[test]
fn after_a_step_every_lease_is_renewed_at_once() {
    let mut desk = Desk::new();
    let cell = desk.hold(fenced());
    desk.pass(ms(10));
    desk.grant(Token(99), stepped(&desk, ms(4_000)), None);
    let renewed =
        desk.sent.iter().any(|(context, op)| context.token == cell.token && matches!(op, Command::Renew(..)));
    assert!(renewed, "{:?}", desk.sent);
}

#[test]
fn a_step_backward_between_two_renewals_of_one_instant_loses_nothing() {
    let mut desk = Desk::new();
    let first = desk.hold(fenced());
    desk.key = "other".into();
    let second = desk.hold(fenced());
    desk.sleep();
    let [before, after] = [desk.next(), desk.next()].map(|(context, _)| context);
    assert_eq!(before.sent, after.sent);
    desk.pass(ms(1));
    let server_time = desk.server_time();
    desk.pass(ms(1));
    let ServerTime(late) = desk.server_time();
    desk.answer(after, Ok(RenewReply::Renewed { server_time: ServerTime(late - 60_000_000) }));
    desk.answer(before, Ok(RenewReply::Renewed { server_time }));
    assert!(desk.lost.is_empty());
    assert!(desk.until(&first).duration_since(desk.now) > TTL * 9 / 10);
    assert!(desk.until(&second).duration_since(desk.now) > TTL * 9 / 10);
}
