use super::*;
use crate::protocol::token_text;

#[test]
fn the_first_attempt_is_one_plain_command() {
    let mut desk = Desk::new();
    desk.acquire(0, want());
    let (context, op) = desk.next();
    let Command::Acquire(_, op) = op else { panic!("{op:?}") };
    assert_eq!(op, Ask::Plain(op::TryAcquire { token: context.token, ttl: TTL }));
    desk.fresh(context);
    let cell = desk.acquired();
    assert_eq!(token_text("c", cell.token), format!("dl1:c:{}", cell.token.0));
    desk.quiet();
}

#[test]
fn a_request_for_a_fencing_token_asks_the_script() {
    let mut desk = Desk::new();
    desk.acquire(0, fenced());
    let (_, mode, fences) = desk.next_enter();
    assert_eq!((mode, fences), (AcquireMode::Wait, 2));
}

#[test]
fn one_attempt_ends_with_the_first_answer_and_names_the_holder() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { wait_limit: WaitLimit::Once, ..want() });
    let (context, _) = desk.next();
    desk.busy(context);
    let (_, Outcome::Busy { holder: Some(holder), .. }) = desk.outcome() else { panic!("busy") };
    assert_eq!((&*holder.text, holder.until), ("dl1:other:1", Some(desk.now.after(TTL))));
    desk.quiet();
}

#[test]
fn a_wait_without_any_answer_ends_as_unavailable() {
    let mut desk = Desk::new();
    let until = desk.now.after(ms(200));
    desk.acquire(0, Want { wait_limit: WaitLimit::Until(until), ..want() });
    desk.pass(ms(200));
    desk.timer();
    assert!(matches!(desk.outcome(), (0, Outcome::Unavailable(_))));
}

#[test]
fn a_wait_behind_a_holder_here_ends_as_busy_even_while_the_next_command_is_under_way() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    let until = desk.now.after(ms(200));
    desk.acquire(1, Want { wait_limit: WaitLimit::Until(until), ..want() });
    desk.pass(ms(199));
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent);
    desk.pass(ms(1));
    desk.timer();
    assert!(matches!(desk.outcome(), (1, Outcome::Busy { .. })));
}

#[test]
fn out_of_reach_is_counted_even_for_those_who_would_wait_for_ever() {
    let mut desk = Desk::new();
    desk.down();
    desk.acquire(0, want());
    let (context, _) = desk.next();
    desk.fails(context, Failure::NotSent);
    desk.pass(ms(2_999));
    desk.timer();
    desk.nobody_is_done();
    desk.pass(ms(1));
    desk.timer();
    assert!(matches!(desk.outcome(), (0, Outcome::Unavailable(_))));
}

#[test]
pub(super) fn an_answer_after_the_lease_has_run_out_is_given_back_and_a_new_token_tried() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { ttl: ms(50), ..want() });
    let (late, _) = desk.next();
    let token = late.token;
    desk.pass(ms(60));
    desk.fresh(late);
    assert_eq!(desk.next_leave().0.token, token);
    assert_ne!(desk.next_enter().0.token, token);
    desk.nobody_is_done();
}

#[test]
fn a_server_that_is_always_too_slow_is_out_of_reach() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { ttl: ms(50), ..want() });
    for _ in 0..60 {
        let Some((context, op)) = desk.sent.pop_front() else { break };
        if matches!(op, Command::Release(..)) {
            continue;
        }
        desk.pass(ms(200));
        desk.timer();
        desk.fresh(context);
    }
    assert!(matches!(desk.outcome(), (0, Outcome::Unavailable(_))));
}

/// Two late replies, with minutes of timely ones between them, do not make a server that is always too slow.
#[test]
fn a_reply_that_comes_in_time_ends_the_time_of_late_ones() {
    let mut desk = Desk::new();
    desk.acquire(0, Want { ttl: ms(50), ..want() });
    let late = |desk: &mut Desk| {
        let (context, _) = desk.next();
        desk.pass(ms(60));
        desk.fresh(context);
        // Released, and asked for again.
        desk.next_leave();
    };
    late(&mut desk);
    let (context, _) = desk.next();
    desk.busy(context);
    let begin = desk.now;
    while desk.now.duration_since(begin) < Duration::from_secs(60) {
        desk.sleep();
        let (context, ..) = desk.next_enter();
        desk.busy(context);
    }
    desk.sleep();
    late(&mut desk);
    desk.timer();
    desk.nobody_is_done();
}

#[test]
fn a_plain_attempt_that_finds_the_lock_ours_asks_since_when() {
    let mut desk = Desk::new();
    desk.acquire(0, want());
    let (context, _) = desk.next();
    desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time: None, fence: None }));
    desk.nobody_is_done();
    let (context, ..) = desk.next_enter();
    let server_time = Some(desk.server_time());
    desk.answer(context, Ok(AcquireReply::AlreadyHeld { server_time, fence: None }));
    desk.acquired();
}
