use super::*;

#[test]
fn the_heartbeat_comes_before_a_claim_would_end() {
    let mut desk = Desk::new();
    desk.queue(want());
    let slept = desk.sleep();
    assert!(slept <= ms(2_400) && slept >= ms(1_900), "{slept:?}");
    assert_eq!(desk.next_enter().1, AcquireMode::WaitAgain);
}

#[test]
fn only_the_front_polls_behind_a_holder_that_cannot_hand_over() {
    for (place, most) in [(Place::First, ms(10)), (Place::Behind, ms(2_400))] {
        let mut desk = Desk::new();
        desk.acquire(0, want());
        let (context, _) = desk.next();
        desk.busy_behind(context, "py:1", Place::Behind);
        let (context, ..) = desk.next_enter();
        desk.busy_behind(context, "py:1", place);
        let slept = desk.sleep();
        assert!(slept <= most && slept >= most / 4, "{place:?}: {slept:?}");
    }
}

/// The pauses may have any length, because no place in a queue must be kept alive.
#[test]
fn the_pauses_of_who_polls_are_those_of_the_store() {
    let (first, longest) = (ms(700), ms(5_000));
    let polls = PollPauses { first, longest };
    let mut desk = Desk::with(&Tuning { poll_gap: Duration::ZERO, polls, ..Tuning::default() });
    desk.acquire(0, want());
    let (context, _) = desk.next();
    desk.busy_behind(context, "py:1", Place::Behind);
    for pause in [first, first * 2, first * 4, longest, longest] {
        let (context, ..) = desk.next_enter();
        desk.busy_behind(context, "py:1", Place::First);
        let slept = desk.sleep();
        assert!(slept <= pause && slept >= pause / 2, "{slept:?} of {pause:?}");
    }
}

#[test]
fn a_crashed_holder_is_asked_for_when_its_lease_has_run_out() {
    let mut desk = Desk::new();
    desk.acquire(0, want());
    let (context, _) = desk.next();
    desk.busy(context);
    let (context, ..) = desk.next_enter();
    desk.busy_for(context, "dl1:other:1", ms(700), Place::Behind);
    let slept = desk.sleep();
    assert!(slept >= ms(700) && slept <= ms(750), "{slept:?}");
}

#[test]
fn after_a_gap_the_front_asks_again() {
    let mut desk = Desk::new();
    let token = desk.queue(want());
    desk.push(Push::Gap { key: desk.key.clone(), token });
    assert_eq!(desk.sleep(), Tuning::default().poll_gap);
    desk.next_enter();
}

#[test]
fn news_of_a_gap_outlives_an_answer_that_was_given_before() {
    let mut desk = Desk::new();
    desk.acquire(0, fenced());
    let (context, ..) = desk.next_enter();
    desk.push(Push::Gap { key: desk.key.clone(), token: context.token });
    desk.busy(context);
    assert_eq!(desk.sleep(), Tuning::default().poll_gap);
}

#[test]
fn an_entry_is_removed_by_the_one_that_gets_the_lock() {
    let mut desk = Desk::new();
    desk.queue(want());
    desk.down();
    // The only request that waits gives up. One that does not wait remains, with the entry still on the
    // server.
    let once = Want { wait_limit: WaitLimit::Once, ..want() };
    desk.acquire(2, once);
    desk.pass(ms(3_000));
    desk.acquire(3, Want { wait_limit: WaitLimit::Once, ..want() });
    desk.timer();
    desk.up(EarlierCommands::Ended);
    for (context, op) in desk.sent.drain(..) {
        if let Command::Acquire(_, Ask::Full(op::Acquire { mode, .. })) = op {
            assert_ne!(mode, AcquireMode::Try, "{context:?}");
        }
    }
}

#[test]
fn without_pushes_the_server_is_told() {
    let mut desk = Desk::new();
    desk.link(&LinkEvent::Notifications(Notifications::Off));
    desk.acquire(0, fenced());
    assert_eq!(desk.next_enter().1, AcquireMode::Poll);
}

#[test]
fn after_a_new_subscription_everybody_asks() {
    let mut desk = Desk::new();
    desk.queue(want());
    desk.link(&LinkEvent::Notifications(Notifications::On));
    assert_eq!(desk.next_enter().1, AcquireMode::WaitAgain);
}

#[test]
fn who_has_left_the_key_free_asks_for_it_after_the_gap() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.release(&cell);
    let (leave, _) = desk.next_leave();
    desk.answer(leave, Ok(ReleaseReply::Released { gap: true }));
    desk.acquire(1, want());
    desk.quiet();
    desk.nobody_is_done();
    desk.sleep();
    let (context, ..) = desk.next_enter();
    desk.fresh(context);
    desk.acquired();
}

#[test]
fn one_attempt_is_made_in_a_gap_too() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    desk.release(&cell);
    let (leave, _) = desk.next_leave();
    desk.answer(leave, Ok(ReleaseReply::Released { gap: true }));
    desk.acquire(1, Want { wait_limit: WaitLimit::Once, ..want() });
    desk.next_enter();
}

#[test]
fn a_silent_server_is_out_of_reach_for_those_behind_a_waiter_of_another_kind_too() {
    let mut desk = Desk::new();
    let start = desk.now;
    desk.acquire(0, Want { kind: crate::protocol::LockKind::Shared, unavailable_after: ms(2_000), ..want() });
    desk.acquire(1, Want { unavailable_after: ms(3_000), ..want() });
    while desk.done.len() < 2 {
        while let Some((context, _)) = desk.sent.pop_front() {
            desk.fails(context, Failure::Later);
        }
        if desk.done.len() < 2 {
            desk.sleep();
        }
    }
    assert!(matches!(desk.outcome(), (0, Outcome::Unavailable(_))));
    assert!(matches!(desk.outcome(), (1, Outcome::Unavailable(_))));
    assert_eq!(desk.now.duration_since(start), ms(3_000));
}

/// A store may say so of a holder that never expires.
#[test]
fn a_holder_that_remains_for_ever_is_asked_about_at_every_heartbeat() {
    let mut desk = Desk::new();
    desk.acquire(0, want());
    let (context, _) = desk.next();
    desk.busy(context);
    let (context, ..) = desk.next_enter();
    desk.busy_for(context, "dl1:other:1", Duration::MAX, Place::Behind);
    desk.sleep();
    desk.next_enter();
}
