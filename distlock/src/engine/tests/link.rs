use super::*;
use crate::protocol::LATE_COMMANDS;

#[test]
fn a_release_that_failed_is_pending_until_there_is_a_link() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.down();
    desk.release(&cell);
    let (context, _) = desk.next_leave();
    assert!(matches!(desk.confirmed(context, error(Failure::NotSent)), Err(Failed::Unconfirmed(_))));
    desk.up(EarlierCommands::Ended);
    let (context, _) = desk.next_leave();
    assert_eq!(context.token, cell.token);
    assert!(desk.confirmed(context, Ok(ReleaseReply::NotHeld)).is_ok());
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn a_repeated_release_still_keeps_the_key_taken_as_long_as_asked() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { min_hold: Some(ms(5_000)), ..want() });
    desk.release(&cell);
    let (context, keep_taken_for) = desk.next_leave();
    assert_eq!(keep_taken_for, Some(ms(5_000)));
    desk.down();
    desk.fails(context, Failure::Unknown);
    desk.pass(ms(2_000));
    desk.up(EarlierCommands::Ended);
    assert_eq!(desk.next_leave().1, Some(ms(3_000)));
}

#[test]
fn what_an_old_link_may_still_do_is_undone_later_once_more() {
    let mut desk = Desk::new();
    let ticket = desk.acquire(0, want());
    let (context, _) = desk.next();
    let token = context.token;
    desk.down();
    // Failed as unknown before there is a new link.
    desk.fails(context, Failure::Unknown);
    desk.up(EarlierCommands::MayArrive);
    let (context, ..) = desk.next_enter();
    desk.cancel(ticket);
    desk.busy(context);
    let leaves: Vec<_> = desk.sent.drain(..).collect();
    assert!(leaves.iter().all(|(context, op)| context.token == token && matches!(op, Command::Release(..))));
    for (context, _) in leaves {
        desk.answer(context, Ok(ReleaseReply::Cancelled));
    }
    desk.pass(LATE_COMMANDS);
    desk.timer();
    let (context, _) = desk.next_leave();
    assert_eq!(context.token, token);
    desk.answer(context, Ok(ReleaseReply::NotHeld));
    for (context, _) in desk.sent.drain(..).collect::<Vec<_>>() {
        desk.answer(context, Ok(ReleaseReply::NotHeld));
    }
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn a_pending_release_is_repeated_too_while_an_old_link_may_overtake_it() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.release(&cell);
    let (context, _) = desk.next_leave();
    desk.down();
    desk.fails(context, Failure::Unknown);
    desk.up(EarlierCommands::MayArrive);
    let (context, _) = desk.next_leave();
    desk.answer(context, Ok(ReleaseReply::NotHeld));
    desk.pass(LATE_COMMANDS);
    desk.timer();
    assert_eq!(desk.next_leave().0.token, cell.token);
}

#[test]
fn tokens_of_a_new_link_are_left_once() {
    let mut desk = Desk::new();
    desk.down();
    desk.up(EarlierCommands::MayArrive);
    let cell = desk.hold(want());
    desk.release(&cell);
    let (context, _) = desk.next_leave();
    desk.answer(context, Ok(ReleaseReply::Released { gap: false }));
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn held_leases_are_renewed_at_once_on_a_new_link() {
    let mut desk = Desk::new();
    desk.hold(want());
    desk.down();
    desk.up(EarlierCommands::Ended);
    assert!(matches!(desk.next().1, Command::Renew(..)));
}

#[test]
fn waiters_ask_on_a_new_link() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.down();
    desk.up(EarlierCommands::Ended);
    let (context, mode, _) = desk.next_enter();
    assert_eq!((context.token, mode), (token, AcquireMode::WaitAgain));
}
