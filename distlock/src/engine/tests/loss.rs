use super::*;

#[test]
fn the_deadline_comes_first() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.sleep();
    let (renewal, op) = desk.next();
    assert!(matches!(op, Command::Renew(..)));
    desk.now = desk.until(&cell);
    let server_time = desk.server_time();
    desk.answer(renewal, Ok(RenewReply::Renewed { server_time }));
    assert_eq!(desk.lost, [LostReason::Expired]);
    assert_eq!(cell.peek(desk.now), CellState::Lost(LostReason::Expired));
}

/// A process that was paused finds out about the end of its lease only after that of `max_hold`.
#[test]
fn a_lease_that_ended_before_max_hold_has_expired() {
    let looks: [fn(&mut Desk); 2] = [Desk::timer, |_| ()];
    for looks_first in looks {
        let mut desk = Desk::new();
        let cell = desk.hold(Want { max_hold: Some(TTL * 6), ..want() });
        desk.pass(TTL * 10);
        assert_eq!(cell.peek(desk.now), CellState::Lost(LostReason::Expired));
        looks_first(&mut desk);
        assert_eq!(cell.state(desk.now), CellState::Lost(LostReason::Expired));
        desk.timer();
        assert_eq!(desk.lost, [LostReason::Expired]);
    }
}

/// A grant is pushed while a heartbeat is in flight. Returns the heartbeat.
fn granted_while_asking(desk: &mut Desk) -> (Sent, Arc<LeaseCell>) {
    let token = desk.queue(want());
    desk.sleep();
    let (heartbeat, ..) = desk.next_enter();
    desk.grant(token, desk.server_time(), None);
    let cell = desk.acquired();
    (heartbeat, cell)
}

#[test]
fn a_lock_found_free_while_it_is_held_was_lost() {
    let mut desk = Desk::new();
    let (heartbeat, cell) = granted_while_asking(&mut desk);
    desk.pass(ms(1));
    desk.fresh(heartbeat);
    assert_eq!(desk.lost, [LostReason::Expired]);
    assert_eq!(desk.next_leave().0.token, cell.token);
}

#[test]
fn a_lock_found_ours_while_it_is_held_lasts_longer() {
    let mut desk = Desk::new();
    let (heartbeat, cell) = granted_while_asking(&mut desk);
    let asked = heartbeat.sent;
    let server_time = Some(desk.server_time());
    desk.answer(heartbeat, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    assert_eq!(desk.until(&cell), asked.after(ms(10_000 - 100 - 2)));
}

#[test]
fn busy_while_it_is_held_is_old_news() {
    let mut desk = Desk::new();
    let (heartbeat, cell) = granted_while_asking(&mut desk);
    desk.busy(heartbeat);
    assert!(desk.lost.is_empty());
    desk.until(&cell);
}

#[test]
fn what_the_server_did_before_we_knew_is_no_loss() {
    let mut desk = Desk::new();
    desk.acquire(0, fenced());
    let (first, ..) = desk.next_enter();
    desk.up(EarlierCommands::Ended);
    let (second, ..) = desk.next_enter();
    let server_time = Some(desk.server_time());
    // The commands are executed in the opposite order, because threads were preempted. The replies are noticed in
    // another order again.
    let old = if matches!(first.command, Command::Acquire(AcquirePurpose { seq: 1, .. }, _)) {
        second
    } else {
        panic!()
    };
    desk.answer(first, Ok(AcquireReply::AlreadyHeld { server_time, fence: Some(7) }));
    let cell = desk.acquired();
    desk.answer(old, Ok(AcquireReply::Acquired { server_time, fence: Some(5) }));
    assert!(desk.lost.is_empty());
    desk.until(&cell);
}

#[test]
fn a_refused_renewal_is_a_loss() {
    let mut desk = Desk::new();
    desk.hold(want());
    desk.sleep();
    let (renewal, _) = desk.next();
    let confirmation = desk.confirmed(renewal, Ok(RenewReply::NotHeld));
    assert!(matches!(confirmation, Err(Failed::Lost(LostReason::Taken))));
    assert_eq!(desk.lost, [LostReason::Taken]);
}

#[test]
pub(super) fn a_renewal_that_was_refused_before_the_lock_was_taken_anew_is_none() {
    let mut desk = Desk::new();
    let first = desk.hold(want());
    desk.acquire(1, Want { renewal: Renewal::Never, ttl: TTL * 2, ..want() });
    let (_, effects) = desk.engine.on_key(desk.now, &first.key, |step| step.extend(&first, TTL));
    desk.take(effects);
    let (renewal, _) = desk.next();
    desk.pass(ms(10));
    // The next holder needs more than is left. It asks, and finds that the lock was lost in between.
    desk.release(&first);
    let (context, ..) = desk.next_enter();
    assert_eq!(context.token, first.token);
    desk.fresh(context);
    let second = desk.acquired();
    desk.answer(renewal, Ok(RenewReply::NotHeld));
    assert!(desk.lost.is_empty());
    desk.until(&second);
}

#[test]
fn a_broken_connection_is_no_loss() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.sleep();
    let (renewal, _) = desk.next();
    desk.down();
    desk.fails(renewal, Failure::Unknown);
    assert!(desk.lost.is_empty());
    desk.until(&cell);
}

#[test]
fn a_shutdown_takes_the_lock_from_its_holder_and_nothing_from_those_who_wait() {
    let mut desk = Desk::new();
    let ticket = desk.acquire(0, fenced());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    let effects = desk.engine.on_every_key(desk.now, |step| step.lose_all(LostReason::Shutdown));
    desk.take(effects);
    desk.cancel(ticket);
    assert_eq!(desk.next_leave().0.token, token);
}

#[test]
fn a_refused_release_is_a_loss_if_it_was_sent_once_and_in_time() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.release(&cell);
    let (context, _) = desk.next_leave();
    let confirmation = desk.confirmed(context.clone(), Ok(ReleaseReply::NotHeld));
    assert!(matches!(confirmation, Err(Failed::Lost(LostReason::Taken))));
    desk.pass(TTL);
    let confirmation = desk.confirmed(context, Ok(ReleaseReply::NotHeld));
    assert!(confirmation.is_ok());
}

#[test]
fn a_renewal_from_before_the_lock_was_taken_anew_extends_nothing() {
    let mut desk = Desk::new();
    let first = desk.hold(fenced());
    desk.acquire(1, fenced());
    desk.acquire(2, fenced());
    desk.release(&first);
    let second = desk.acquired();
    let (_, effects) = desk.engine.on_key(desk.now, &second.key, |step| step.extend(&second, TTL * 3));
    desk.take(effects);
    let (renewal, _) = desk.next();
    desk.pass(ms(10));
    // No fencing token is left: the next holder asks, and finds that the lock was lost in between.
    desk.release(&second);
    let (context, ..) = desk.next_enter();
    assert_eq!(context.token, first.token);
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::Acquired { server_time, fence: Some(5_000) }));
    let third = desk.acquired();
    let until = desk.until(&third);
    let server_time = desk.server_time();
    desk.answer(renewal, Ok(RenewReply::Renewed { server_time }));
    assert_eq!(desk.until(&third), until);
}

/// A heartbeat was in flight when the lease was granted, which has ended meanwhile.
#[test]
fn an_answer_from_before_the_lease_that_was_used_up_is_not_the_next_one() {
    let mut desk = Desk::new();
    desk.acquire(0, fenced());
    let (context, ..) = desk.next_enter();
    let token = context.token;
    desk.busy(context);
    desk.sleep();
    let (heartbeat, ..) = desk.next_enter();
    desk.acquire(1, fenced());
    desk.acquire(2, fenced());
    desk.grant(token, desk.server_time(), Some(1_000));
    for _ in 0..2 {
        let cell = desk.acquired();
        desk.release(&cell);
    }
    let (asked, ..) = desk.next_enter();
    let server_time = Some(desk.server_time());
    desk.answer(heartbeat, Ok(AcquireReply::AlreadyHeld { server_time, fence: Some(1_000) }));
    desk.nobody_is_done();
    desk.answer(asked, Ok(AcquireReply::AlreadyHeld { server_time, fence: Some(2_000) }));
    assert_eq!(desk.acquired().fence, Some(2_000));
}
