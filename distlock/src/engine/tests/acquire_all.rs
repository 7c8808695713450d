use super::*;

/// The three keys of the requests 0, 1 and 2.
fn keys() -> [Arc<str>; 3] {
    ["a", "b", "c"].map(Arc::from)
}

impl Desk {
    fn acquire_all(&mut self, want: &Want) -> Vec<Ticket> {
        let mut who = 0..;
        let next = || who.next().expect("there is no end");
        let (tickets, effects) = self.engine.acquire_all(self.now, &keys(), want, next);
        self.take(effects);
        tickets
    }

    fn next_acquire_all(&mut self) -> Vec<(Context, AcquirePurpose, op::Acquire)> {
        self.together.pop_front().expect("a command for several keys was sent")
    }

    fn answer_all(
        &mut self,
        batch: Vec<(Context, AcquirePurpose, op::Acquire)>,
        results: Vec<OpResult<BatchReply>>,
    ) {
        let answered = batch.into_iter().zip(results);
        let answers = answered.map(|((context, asked, _), result)| (context, asked, result)).collect();
        let effects = self.engine.on_acquire_all_reply(self.now, answers);
        self.take(effects);
    }

    fn fresh_reply(&self) -> OpResult<BatchReply> {
        let server_time = Some(self.server_time());
        Ok(BatchReply::Tried(AcquireReply::Acquired { server_time, fence: None }))
    }

    fn busy_reply(&self) -> OpResult<BatchReply> {
        let (server_time, remaining) = (Some(self.server_time()), Remaining::For(TTL));
        let holder = "dl1:other:1".into();
        Ok(BatchReply::Tried(AcquireReply::Busy { server_time, holder, remaining, front: false }))
    }

    fn skipped(&mut self, who: u32) {
        match self.outcome() {
            (request, Outcome::Skipped) => assert_eq!(request, who),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn free_keys_are_taken_by_one_command() {
    let mut desk = Desk::new();
    assert_eq!(desk.acquire_all(&want()).len(), 3);
    let batch = desk.next_acquire_all();
    desk.quiet();
    assert_eq!(batch.len(), 3);
    assert!(batch.iter().all(|(.., op)| op.mode == AcquireMode::Try), "{batch:?}");
    let results = vec![desk.fresh_reply(); 3];
    desk.answer_all(batch, results);
    for key in keys() {
        assert_eq!(desk.acquired().key, key);
    }
    desk.quiet();
}

#[test]
fn behind_a_busy_key_nothing_is_held_and_nothing_is_awaited() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    let results = vec![desk.fresh_reply(), desk.busy_reply(), Ok(BatchReply::Skipped)];
    desk.answer_all(batch, results);
    assert_eq!(&*desk.acquired().key, "a");
    desk.skipped(2);
    let (context, mode, _) = desk.next_enter();
    assert_eq!((&*context.key, mode), ("b", AcquireMode::Wait));
    desk.quiet();
    desk.nobody_is_done();
}

#[test]
fn one_attempt_at_a_busy_key_ends_there() {
    let mut desk = Desk::new();
    desk.acquire_all(&Want { wait_limit: WaitLimit::Once, ..want() });
    let batch = desk.next_acquire_all();
    let results = vec![desk.fresh_reply(), desk.busy_reply(), Ok(BatchReply::Skipped)];
    desk.answer_all(batch, results);
    desk.acquired();
    assert!(matches!(desk.outcome(), (1, Outcome::Busy { .. })));
    desk.skipped(2);
    desk.quiet();
}

#[test]
fn an_unknown_outcome_leaves_all_but_the_first() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    let tokens: Vec<Token> = batch.iter().map(|(context, ..)| context.token).collect();
    desk.answer_all(batch, vec![Err(error(Failure::Unknown)); 3]);
    for (who, token) in [(1, tokens[1]), (2, tokens[2])] {
        assert_eq!(desk.next_leave().0.token, token);
        desk.skipped(who);
    }
    desk.sleep();
    let (context, ..) = desk.next_enter();
    assert_eq!((&*context.key, context.token), ("a", tokens[0]), "the first goes on, with its token");
}

#[test]
fn a_command_that_is_not_answered_is_not_waited_for() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    desk.sleep();
    let (context, ..) = desk.next_enter();
    assert_eq!(&*context.key, "a", "the first asks again");
    for who in [1, 2] {
        desk.next_leave();
        desk.skipped(who);
    }
    desk.quiet();
    let results = vec![desk.fresh_reply(); 3];
    desk.answer_all(batch, results);
    assert_eq!(&*desk.acquired().key, "a");
    for _ in [1, 2] {
        desk.next_leave();
    }
    desk.nobody_is_done();
}

#[test]
fn what_was_not_sent_is_not_undone() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    desk.down();
    desk.answer_all(batch, vec![Err(error(Failure::NotSent)); 3]);
    desk.skipped(1);
    desk.skipped(2);
    desk.quiet();
}

#[test]
fn a_refusal_of_the_whole_is_followed_by_a_command_for_the_first_alone() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    desk.answer_all(batch, vec![Err(error(Failure::Refused)); 3]);
    let (context, op) = desk.next();
    assert!(matches!(op, Command::Acquire(_, Ask::Plain(_))) && &*context.key == "a", "{context:?} {op:?}");
    for who in [1, 2] {
        desk.next_leave();
        desk.skipped(who);
    }
    // It may have been acquired before the error.
    desk.fails(context, Failure::Refused);
    assert!(matches!(desk.outcome(), (0, Outcome::Unavailable(_))));
    assert_eq!(&*desk.next_leave().0.key, "a");
}

#[test]
fn what_the_server_cannot_do_for_now_is_done_key_by_key() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    desk.answer_all(batch, vec![Err(error(Failure::Later)); 3]);
    let (context, op) = desk.next();
    assert!(matches!(op, Command::Acquire(_, Ask::Plain(_))) && &*context.key == "a", "{context:?} {op:?}");
    desk.skipped(1);
    desk.skipped(2);
    desk.quiet();
}

#[test]
fn an_answer_after_the_lease_has_run_out_is_no_lock() {
    let mut desk = Desk::new();
    desk.acquire_all(&Want { ttl: ms(500), ..want() });
    let batch = desk.next_acquire_all();
    desk.pass(ms(600));
    let results = vec![desk.fresh_reply(); 3];
    desk.answer_all(batch, results);
    let leaves = desk.sent.iter().filter(|(_, op)| matches!(op, Command::Release(..))).count();
    assert_eq!(leaves, 3);
    let asks: Vec<_> =
        desk.sent.iter().filter(|(_, op)| matches!(op, Command::Acquire(_, Ask::Full(_)))).collect();
    assert!(matches!(&asks[..], [(context, _)] if &*context.key == "a"), "{asks:?}");
    desk.skipped(1);
    desk.skipped(2);
}

#[test]
fn a_key_whose_predecessor_was_cancelled_meanwhile_is_given_back() {
    let mut desk = Desk::new();
    let tickets = desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    let (_, effects) = desk.engine.on_key(desk.now, &keys()[0], |step| step.cancel(tickets[0]));
    desk.take(effects);
    assert_eq!(&*desk.next_leave().0.key, "a");
    let results = vec![desk.fresh_reply(); 3];
    desk.answer_all(batch, results);
    desk.skipped(1);
    desk.skipped(2);
    while let Some((_, op)) = desk.sent.pop_front() {
        assert!(matches!(op, Command::Release(..)), "{op:?}");
    }
    assert_eq!(desk.engine.rest(), 0);
}

#[test]
fn a_key_in_use_here_ends_the_command_before_it() {
    let mut desk = Desk::new();
    desk.key = "c".into();
    desk.hold(want());
    assert_eq!(desk.acquire_all(&want()).len(), 2);
    assert_eq!(desk.next_acquire_all().len(), 2);
    desk.quiet();
}

#[test]
fn a_first_key_in_use_here_is_requested_alone() {
    let mut desk = Desk::new();
    desk.key = "a".into();
    desk.hold(want());
    assert_eq!(desk.acquire_all(&want()).len(), 1);
    assert!(desk.together.is_empty());
    desk.quiet();
}

#[test]
fn one_that_asks_here_meanwhile_stands_behind_and_goes_on_alone() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    desk.key = "c".into();
    desk.acquire(7, want());
    desk.quiet();
    let results = vec![desk.busy_reply(), Ok(BatchReply::Skipped), Ok(BatchReply::Skipped)];
    desk.answer_all(batch, results);
    desk.skipped(1);
    desk.skipped(2);
    let asked: Vec<_> = desk.sent.iter().map(|(context, op)| (&*context.key, op)).collect();
    assert!(
        matches!(
            &asked[..],
            [("a", Command::Acquire(_, Ask::Full(_))), ("c", Command::Acquire(_, Ask::Plain(_)))]
        ),
        "{asked:?}"
    );
}

/// Without this, a key behind the first one was awaited or held while the first one was awaited.
#[test]
fn a_key_whose_holder_is_replaced_from_here_meanwhile_is_left_out() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    let token = batch[1].0.token;
    desk.key = "b".into();
    desk.acquire(7, Want { replaces: Some("dl1:other:1".into()), ..want() });
    desk.skipped(1);
    assert_eq!(desk.next_leave().0.token, token, "the command may have acquired it");
    let (replaced, op) = desk.next();
    assert!(matches!(op, Command::Replace(..)), "{op:?}");
    let results = vec![desk.busy_reply(), Ok(BatchReply::Skipped), Ok(BatchReply::Skipped)];
    desk.answer_all(batch, results);
    desk.skipped(2);
    let (context, mode, _) = desk.next_enter();
    assert_eq!((&*context.key, mode), ("a", AcquireMode::Wait));
    desk.fresh(replaced);
    let cell = desk.acquired();
    assert_eq!(desk.release(&cell), ReleaseStarted::Sent, "nobody here waits for it");
    desk.nobody_is_done();
}

/// The first key is no longer ours, so the others are not taken either.
#[test]
fn a_first_key_whose_holder_is_replaced_from_here_meanwhile_is_awaited_alone() {
    let mut desk = Desk::new();
    desk.acquire_all(&want());
    let batch = desk.next_acquire_all();
    desk.key = "a".into();
    desk.acquire(7, Want { replaces: Some("dl1:other:1".into()), ..want() });
    let results = vec![desk.fresh_reply(); 3];
    desk.answer_all(batch, results);
    desk.skipped(1);
    desk.skipped(2);
    desk.nobody_is_done();
    let asked: Vec<_> =
        desk.sent.iter().filter(|(_, op)| !matches!(op, Command::Release(..))).map(|(_, op)| op).collect();
    assert!(matches!(asked[..], [Command::Replace(..)]), "{asked:?}");
}

#[test]
fn readers_take_several_keys_too() {
    let mut desk = Desk::new();
    let kind = crate::protocol::LockKind::Shared;
    desk.acquire_all(&Want { kind, ..want() });
    let batch = desk.next_acquire_all();
    let results = vec![desk.fresh_reply(); 3];
    desk.answer_all(batch, results);
    for _ in keys() {
        desk.acquired();
    }
    desk.quiet();
}
