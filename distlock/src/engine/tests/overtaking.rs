//! Threads may send in a different order from the one in which the engine created their commands, because they send
//! after they have released the engine's mutex.

use super::*;
use crate::engine::state::releases::MAX_TOKENS;

/// The lock is acquired and released while a second command of the same attempt is in flight. That command then finds
/// the lock ours, so it is released once more. Returns this release and the holder's own.
fn released_twice(desk: &mut Desk, want: Want) -> (Sent, Sent) {
    desk.acquire(0, want);
    let (first, _) = desk.next();
    let token = first.token;
    desk.sleep();
    let (second, ..) = desk.next_enter();
    desk.fresh(first);
    let cell = desk.acquired();
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    let (own, _) = desk.next_leave();
    let server_time = Some(desk.server_time());
    desk.answer(second, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    let (other, _) = desk.next_leave();
    assert_eq!((own.token, other.token), (token, token));
    (own, other)
}

#[test]
fn a_release_that_another_of_its_token_overtakes_is_no_loss() {
    for own_is_answered_first in [true, false] {
        let mut desk = Desk::new();
        let (own, other) = released_twice(&mut desk, want());
        let overtaken = (own, Ok(ReleaseReply::NotHeld));
        let overtaking = (other, Ok(ReleaseReply::Released { gap: false }));
        let answers = if own_is_answered_first { [overtaken, overtaking] } else { [overtaking, overtaken] };
        for (context, result) in answers {
            let confirmation = desk.confirmed(context, result);
            assert!(confirmation.is_ok(), "{confirmation:?}");
        }
        assert_eq!(desk.engine.rest(), 0);
    }
}

#[test]
fn the_only_release_of_another_token_still_proves_a_loss() {
    let mut desk = Desk::new();
    released_twice(&mut desk, want());
    let cell = desk.hold(want());
    desk.release(&cell);
    let (own, _) = desk.next_leave();
    let confirmation = desk.confirmed(own, Ok(ReleaseReply::NotHeld));
    assert!(matches!(confirmation, Err(Failed::Lost(LostReason::Taken))), "{confirmation:?}");
}

/// A push arrived twice. The second one is noticed after the lock was released.
#[test]
fn a_release_that_is_overtaken_because_of_a_late_push_is_no_loss() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.release(&cell);
    let (own, _) = desk.next_leave();
    desk.grant(cell.token, desk.server_time(), None);
    let (other, _) = desk.next_leave();
    desk.answer(other, Ok(ReleaseReply::Released { gap: false }));
    let confirmation = desk.confirmed(own, Ok(ReleaseReply::NotHeld));
    assert!(confirmation.is_ok(), "{confirmation:?}");
}

/// The release that was to be repeated, because a former link may be alive, goes out with the next link, before the
/// caller's thread has sent the first.
#[test]
fn a_release_that_its_own_repetition_overtakes_is_no_loss() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.down();
    desk.up(EarlierCommands::MayArrive);
    desk.sent.clear();
    desk.release(&cell);
    let (own, _) = desk.next_leave();
    desk.down();
    desk.up(EarlierCommands::MayArrive);
    let (repeated, _) = desk.next_leave();
    desk.answer(repeated, Ok(ReleaseReply::Released { gap: false }));
    let confirmation = desk.confirmed(own, Ok(ReleaseReply::NotHeld));
    assert!(confirmation.is_ok(), "{confirmation:?}");
}

#[test]
fn no_more_tokens_are_remembered_than_so_many() {
    let mut desk = Desk::new();
    let (own, _) = released_twice(&mut desk, want());
    for number in 0..MAX_TOKENS {
        let token = Token(1_000_000 + u64::try_from(number).unwrap());
        desk.grant(token, desk.server_time(), None);
    }
    // The token was forgotten, so the release that was overtaken counts as a loss.
    let confirmation = desk.confirmed(own, Ok(ReleaseReply::NotHeld));
    assert!(matches!(confirmation, Err(Failed::Lost(LostReason::Taken))), "{confirmation:?}");
}

#[test]
fn a_release_that_overtakes_one_with_min_hold_keeps_the_key_as_well() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { min_hold: Some(ms(4_000)), ..want() });
    let (first, _) = desk.next();
    desk.sleep();
    let (second, ..) = desk.next_enter();
    desk.fresh(first);
    let cell = desk.acquired();
    desk.pass(ms(1_000));
    desk.release(&cell);
    assert_eq!(desk.next_leave().1, Some(ms(3_000)));
    desk.pass(ms(500));
    let server_time = Some(desk.server_time());
    desk.answer(second, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    assert_eq!(desk.next_leave().1, Some(ms(2_500)));
}

/// The renewal asks for less, because it was created before the extension. The order in which the server executes the
/// two makes no difference: neither shortens the lease.
#[test]
fn a_renewal_that_an_extension_overtakes_leaves_the_holder_what_was_promised() {
    for extension_is_answered_first in [true, false] {
        let mut desk = Desk::new();
        let cell = desk.hold(want());
        desk.sleep();
        let (renewal, _) = desk.next();
        desk.pass(ms(1));
        let (held, effects) = desk.engine.on_key(desk.now, &cell.key, |step| step.extend(&cell, TTL * 3));
        assert!(held);
        desk.take(effects);
        let (extension, _) = desk.next();
        let promised = desk.now.after(ms(30_000 - 300 - 2));
        let sent = if extension_is_answered_first { [extension, renewal] } else { [renewal, extension] };
        for (context, is_extended) in sent.into_iter().zip([extension_is_answered_first, true]) {
            desk.pass(ms(1));
            let server_time = desk.server_time();
            desk.answer(context, Ok(RenewReply::Renewed { server_time }));
            assert_eq!(desk.until(&cell) == promised, is_extended);
        }
        desk.sleep();
        let (_, op) = desk.next();
        assert!(matches!(op, Command::Renew(_, op::Renew { ttl, .. }) if ttl == TTL * 3), "{op:?}");
    }
}
