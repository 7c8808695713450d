//! Which operations the store gets, what its answers mean, and which operations it does not get.

use std::time::Duration;

use super::*;
use crate::backend::{BatchPart, BatchReply, Demand, Failure, Remaining, may_be_applied};
use crate::key::LockKey;
use distlock_store::{Busy, Fencing, Grant, KeyRules, LeaseRule};

async fn says(
    rig: &mut Rig,
    op: impl Into<op::Ask>,
    reply: Result<AcquireReply, StoreError>,
) -> OpResult<protocol::AcquireReply> {
    let sent = rig.send("k", op.into());
    let (_, answer) = rig.script.next_acquire().await;
    answer.send(reply).unwrap();
    sent.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_pauses_of_waiters_that_poll_are_those_of_the_store() {
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    for (first, longest, expected) in [
        (second, minute, (second, minute)),
        (Duration::ZERO, Duration::ZERO, (Duration::from_millis(1), Duration::from_millis(1))),
        (minute, second, (minute, minute)),
    ] {
        let abilities = Abilities::default().waiting(Waiting::PolledEvery { first, longest });
        let rig = Rig::up(abilities).await;
        let polls = rig.backend.tuning().polls;
        assert_eq!((polls.first, polls.longest), expected);
        assert!(!rig.backend.abilities().waiting.is_told());
    }
}

#[tokio::test(start_paused = true)]
async fn a_coarse_ttl_is_rounded_up_for_the_store() {
    let second = Duration::from_secs(1);
    let abilities = queueing().lease(LeaseRule::PerLock { granularity: second }).min_hold();
    let mut rig = Rig::up(abilities).await;
    let ttl = Duration::from_millis(2_001);
    let claim = Duration::from_millis(10);
    let op = op::Acquire {
        token: Token(1),
        kind: LockKind::Exclusive,
        ttl,
        claim,
        mode: AcquireMode::Wait,
        fences: 0,
    };
    let sent = rig.send("k", op);
    let (request, answer) = rig.script.next_acquire().await;
    assert_eq!((request.ttl, request.queue.unwrap().claim), (second * 3, second));
    answer.send(acquired()).unwrap();
    sent.await.unwrap().unwrap();
    let sent = rig.send(
        "k",
        op::Release {
            token: Token(1),
            keep_taken_for: Some(ttl),
            handoffs_began: None,
            ends: op::Ends::Other,
        },
    );
    let (request, answer) = rig.script.next_release().await;
    assert_eq!(request.keep, Some(second * 3));
    answer.send(Ok(ReleaseReply::Released)).unwrap();
    sent.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_a_later_time_than_the_one_before() {
    let mut rig = Rig::up(Abilities::default()).await;
    let mut last = ServerTime(0);
    for _ in 0..100 {
        let Ok(protocol::AcquireReply::AlreadyHeld { server_time: Some(server_time), .. }) =
            says(&mut rig, attempt(1), Ok(AcquireReply::AlreadyHeld { fence: None })).await
        else {
            panic!("not ours")
        };
        assert!(server_time > last, "{server_time:?} after {last:?}");
        last = server_time;
    }
}

#[tokio::test(start_paused = true)]
async fn busy_says_by_whom_and_for_how_long() {
    let mut rig = Rig::up(queueing()).await;
    let left = Duration::from_secs(4);
    let reply = AcquireReply::Busy(Busy::by("dl1:other:1").remaining(left).behind_others());
    let Ok(protocol::AcquireReply::Busy { holder, remaining, front, .. }) =
        says(&mut rig, enter(1, AcquireMode::Wait, 0), Ok(reply)).await
    else {
        panic!("not busy")
    };
    assert_eq!((&*holder.text, remaining, front), ("dl1:other:1", Remaining::For(left), false));
    let Ok(protocol::AcquireReply::Busy { holder, remaining, front, .. }) =
        says(&mut rig, attempt(1), Ok(AcquireReply::Busy(Busy::by_somebody()))).await
    else {
        panic!("not busy")
    };
    assert_eq!((&*holder.text, remaining, front), ("dl1:unknown", Remaining::Unknown, true));
}

#[tokio::test(start_paused = true)]
async fn whether_a_holder_hands_over_is_judged_by_its_text_unless_the_store_says_so() {
    let mut rig = Rig::up(queueing()).await;
    for (busy, expected) in [
        (Busy::by("dl1:other:1"), true),
        (Busy::by("dl1:other:1").is_not_reported(), false),
        (Busy::by("a script"), false),
        (Busy::by("a script").is_reported(), true),
        (Busy::ours("a name of the store's own"), true),
        (Busy::foreign("dl1:not:1"), false),
        (Busy::by_somebody(), true),
        (Busy::by_somebody().is_not_reported(), false),
    ] {
        let reply = AcquireReply::Busy(busy.clone());
        let Ok(protocol::AcquireReply::Busy { holder, .. }) = says(&mut rig, attempt(1), Ok(reply)).await
        else {
            panic!("not busy")
        };
        assert_eq!(holder.hands_over, expected, "{busy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_breaks_its_contract_is_not_believed() {
    let mut rig = Rig::up(Abilities::default().fencing(Fencing::Blocks)).await;
    let ourselves = AcquireReply::Busy(Busy::by(owner(1).as_str()));
    for (op, reply) in
        [(op::Ask::from(attempt(1)), Ok(ourselves)), (enter(1, AcquireMode::Try, 1).into(), acquired())]
    {
        let error = says(&mut rig, op, reply).await.unwrap_err();
        assert_eq!(error.kind, Failure::Unknown);
        assert!(error.to_string().contains("breaks its contract"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_keep_their_promise_and_their_text() {
    let mut rig = Rig::up(Abilities::default()).await;
    for (error, kind) in [
        (StoreError::not_sent("a"), Failure::NotSent),
        (StoreError::later("a"), Failure::Later),
        (StoreError::unknown("a"), Failure::Unknown),
        (StoreError::refused("a"), Failure::Refused),
    ] {
        let error = says(&mut rig, attempt(1), Err(error)).await.unwrap_err();
        assert_eq!((error.kind, error.to_string().as_str()), (kind, "a"));
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_go_out_together_as_far_as_the_store_takes_them() {
    let mut rig = Rig::up(Abilities::default().renews_together(2)).await;
    let (places, parts) = renews(&rig, ["a", "b", "c"].map(|key| (key, renew(1))));
    assert_eq!(places, [vec![0, 1], vec![2]]);
    let results = tokio::spawn(results(parts));
    for expected in [vec!["p:a", "p:b"], vec!["p:c"]] {
        let (keys, answer) = rig.script.next_renew_all().await;
        assert_eq!(keys, expected);
        let held = |key: &String| if key == "p:b" { RenewReply::NotHeld } else { RenewReply::Renewed };
        answer.send(Ok(keys.iter().map(held).collect())).unwrap();
    }
    assert_eq!(results.await.unwrap(), ["renewed", "not held", "renewed"]);
}

/// A batch waits for its turn on all of its keys.
#[tokio::test(start_paused = true)]
async fn a_key_with_a_command_in_flight_does_not_hold_up_the_renewals_of_others() {
    let mut rig = Rig::up(Abilities::default().renews_together(9)).await;
    let release = rig.send("b", leave(1));
    let (_, answer) = rig.script.next_release().await;
    let (places, parts) = renews(&rig, ["a", "b", "c", "a"].map(|key| (key, renew(1))));
    assert_eq!(places, [vec![1], vec![0, 2], vec![3]]);
    let results = tokio::spawn(results(parts));
    let (keys, renewal) = rig.script.next_renew_all().await;
    assert_eq!(keys, ["p:a", "p:c"]);
    rig.script.is_quiet().await;
    renewal.send(Ok(vec![RenewReply::Renewed; 2])).unwrap();
    answer.send(Ok(ReleaseReply::Released)).unwrap();
    release.await.unwrap().unwrap();
    for _ in 0..2 {
        rig.script.next_renew().await.1.send(Ok(RenewReply::NotHeld)).unwrap();
    }
    assert_eq!(results.await.unwrap(), ["renewed", "not held", "renewed", "not held"]);
}

/// No batch hands a lease over.
#[tokio::test(start_paused = true)]
async fn the_last_renewal_of_a_lease_goes_out_alone() {
    let rig = Rig::up(Abilities::default().renews_together(9)).await;
    let last = op::Renew { last: true, ..renew(1) };
    let (places, _parts) = renews(&rig, [("a", renew(1)), ("b", last), ("c", renew(1))]);
    assert_eq!(places, [vec![1], vec![0, 2]]);
}

/// It refuses the whole batch, and does not answer while the row is locked.
#[tokio::test(start_paused = true)]
async fn a_row_that_stays_locked_takes_no_other_renewal_with_it() {
    for (locked, order) in [("p:a", "acb"), ("p:b", "abc"), ("p:c", "abc")] {
        let mut rig = Rig::up(Abilities::default().renews_together(9)).await;
        let (_, parts) = renews(&rig, ["a", "b", "c"].map(|key| (key, renew(1))));
        let results = tokio::spawn(results(parts));
        let (_, together) = rig.script.next_renew_all().await;
        together.send(Err(StoreError::later("one row is locked"))).unwrap();
        let mut unanswered = Vec::new();
        for key in order.chars() {
            let (request, answer) = rig.script.next_renew().await;
            assert_eq!(*request.key, *format!("p:{key}"), "{order}");
            if *request.key == *locked {
                unanswered.push(answer);
            } else {
                answer.send(Ok(RenewReply::Renewed)).unwrap();
            }
        }
        let expected = ["p:a", "p:b", "p:c"];
        let expected = expected.map(|key| if key == locked { "one row is locked" } else { "renewed" });
        assert_eq!(results.await.unwrap(), expected);
        // Its key waits for it. The others are renewed together again.
        let (places, _parts) = renews(&rig, ["a", "b", "c"].map(|key| (key, renew(1))));
        assert_eq!(places.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2], "{locked}");
        drop(unanswered);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_everything_gets_two_more_commands() {
    let mut rig = Rig::up(Abilities::default().renews_together(9)).await;
    let (_, parts) = renews(&rig, ["a", "b", "c", "d"].map(|key| (key, renew(1))));
    let results = tokio::spawn(results(parts));
    rig.script.next_renew_all().await.1.send(Err(StoreError::later("not now"))).unwrap();
    for _ in 0..2 {
        rig.script.next_renew().await.1.send(Err(StoreError::later("not now, either"))).unwrap();
    }
    assert_eq!(results.await.unwrap(), ["not now, either", "not now", "not now", "not now, either"]);
    rig.script.is_quiet().await;
}

/// A renewal from before a newer command does not follow it.
#[tokio::test(start_paused = true)]
async fn a_refused_renewal_is_not_sent_behind_a_release() {
    let mut rig = Rig::up(Abilities::default().renews_together(9)).await;
    let (_, parts) = renews(&rig, ["a", "b"].map(|key| (key, renew(1))));
    let results = tokio::spawn(results(parts));
    let (_, together) = rig.script.next_renew_all().await;
    let released = rig.send("a", leave(1));
    together.send(Err(StoreError::later("one row is locked"))).unwrap();
    let (_, release) = rig.script.next_release().await;
    let (request, answer) = rig.script.next_renew().await;
    assert_eq!(&*request.key, "p:b");
    answer.send(Ok(RenewReply::Renewed)).unwrap();
    assert_eq!(results.await.unwrap(), ["one row is locked", "renewed"]);
    release.send(Ok(ReleaseReply::Released)).unwrap();
    released.await.unwrap().unwrap();
    rig.script.is_quiet().await;
}

/// Sends a batch. Returns the places of its parts.
fn renews<const N: usize>(
    rig: &Rig,
    batch: [(&str, op::Renew); N],
) -> (Vec<Vec<usize>>, Vec<BatchPart<protocol::RenewReply>>) {
    let batch = batch.map(|(key, op)| (Arc::from(key), op)).to_vec();
    let parts = rig.backend.send_renew_all(batch);
    (parts.iter().map(|part| part.places.clone()).collect(), parts)
}

/// One word for each result of a batch.
async fn results(parts: Vec<BatchPart<protocol::RenewReply>>) -> Vec<String> {
    let parts = parts.into_iter().map(|part| (part.places, tokio::spawn(part.results)));
    let mut results = std::collections::BTreeMap::new();
    for (places, part) in parts.collect::<Vec<_>>() {
        let said = part.await.unwrap().into_iter().map(|result| match result {
            Ok(protocol::RenewReply::Renewed { .. }) => "renewed".to_owned(),
            Ok(protocol::RenewReply::NotHeld) => "not held".to_owned(),
            Err(error) => error.to_string(),
        });
        results.extend(places.into_iter().zip(said));
    }
    results.into_values().collect()
}

/// A renewal that hangs does not delay those of other keys.
#[tokio::test(start_paused = true)]
async fn renewals_of_different_commands_are_answered_separately() {
    let mut rig = Rig::up(Abilities::default()).await;
    let batch = ["a", "b"].map(|key| (Arc::from(key), renew(1))).to_vec();
    let parts = rig.backend.send_renew_all(batch);
    let mut parts: Vec<_> = parts.into_iter().map(|part| tokio::spawn(part.results)).collect();
    let (_hangs, second) = (rig.script.next().await, rig.script.next().await);
    let Call::Renew(_, answer) = second else { panic!("not a renewal") };
    answer.send(Ok(RenewReply::Renewed)).unwrap();
    let renewed = parts.remove(1).await.unwrap();
    assert!(matches!(renewed[..], [Ok(protocol::RenewReply::Renewed { .. })]), "{renewed:?}");
}

#[tokio::test(start_paused = true)]
async fn several_keys_are_one_command_and_those_behind_the_first_busy_one_were_not_tried() {
    let mut rig = Rig::up(Abilities::default().acquires_together(3)).await;
    let keys = ["a", "b", "c", "d"].map(Arc::from);
    assert_eq!(rig.backend.acquires_all(&keys), 3);
    let batch = keys[..3].iter().map(|key| (key.clone(), enter(1, AcquireMode::Try, 0))).collect();
    let results = tokio::spawn(rig.backend.send_acquire_all(batch));
    // Behind it on one of its keys.
    let release = rig.send("b", leave(1));
    let Call::AcquireAll(requests, answer) = rig.script.next().await else { panic!("not together") };
    assert_eq!(requests.len(), 3);
    rig.script.is_quiet().await;
    let busy = AcquireReply::Busy(Busy::by("dl1:other:1"));
    answer.send(Ok(vec![AcquireReply::Acquired { fence: None }, busy])).unwrap();
    let results = results.await.unwrap();
    assert!(matches!(
        results.as_slice(),
        [
            Ok(BatchReply::Tried(protocol::AcquireReply::Acquired { .. })),
            Ok(BatchReply::Tried(protocol::AcquireReply::Busy { .. })),
            Ok(BatchReply::Skipped)
        ]
    ));
    let (_, answer) = rig.script.next_release().await;
    answer.send(Ok(ReleaseReply::NotHeld)).unwrap();
    release.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_for_several_keys_that_answers_late_is_undone_key_by_key() {
    let mut rig = Rig::up(Abilities::default().acquires_together(3)).await;
    let batch = ["a", "b"].map(|key| (Arc::from(key), enter(1, AcquireMode::Try, 0))).to_vec();
    let results = tokio::spawn(rig.backend.send_acquire_all(batch));
    let Call::AcquireAll(_, answer) = rig.script.next().await else { panic!("not together") };
    assert!(results.await.unwrap().iter().all(|result| result.as_ref().is_err_and(may_be_applied)));
    answer.send(Ok(vec![AcquireReply::Acquired { fence: None }; 2])).unwrap();
    rig.script.is_quiet().await;
    let undone = |key: &str| Told::Notice(PushHint::Unproven { key: key.into(), token: Token(1) });
    assert_eq!(rig.told(), [undone("a"), undone("b")]);
}

#[tokio::test(start_paused = true)]
async fn hints_are_about_our_keys_and_owners_only() {
    let mut rig = Rig::up(queueing()).await;
    rig.events.released("q:k");
    rig.events.granted("p:k", "dl1:another:1", Grant::new());
    rig.events.granted("p:k", "somebody", Grant::new().at_most_old(Duration::ZERO));
    rig.events.released("p:k");
    rig.events.granted("p:k", owner(7).as_str(), Grant::new().fence(5));
    rig.events.granted("p:k", owner(7).as_str(), Grant::new().fence(5).at_most_old(Duration::ZERO));
    rig.script.is_quiet().await;
    let told = rig.told();
    let (key, token): (Arc<str>, _) = ("k".into(), Token(7));
    assert_eq!(told[0], Told::Notice(PushHint::Free { key: key.clone() }));
    assert_eq!(told[1], Told::Notice(PushHint::Unproven { key, token }));
    assert!(matches!(&told[2], Told::Push(Push::Grant { token: Token(7), fence: Some(5), .. })));
    assert_eq!(told.len(), 3);
}

#[tokio::test]
async fn what_the_store_cannot_do_is_refused_with_the_reason() {
    let (store, _script) = scripted(
        Abilities::default()
            .longest_ttl(TTL)
            .keys(KeyRules::any().at_most(5).without(|c| c == ' ', "spaces")),
    );
    let backend = StoreBackend::new(store, "c".into(), "p:".into(), ConnectOn::Start);
    let least = Demand::plain(LockKind::Exclusive, TTL);
    backend.check(&least).unwrap();
    for (demand, reason) in [
        (Demand { kind: LockKind::Shared, ..least }, "a shared lock"),
        (Demand { kind: LockKind::Limited { max_holders: 2 }, ..least }, "2 holders"),
        (Demand { fenced: true, ..least }, "fencing tokens"),
        (Demand { min_hold: Some(TTL), ..least }, "min_hold"),
        (Demand { ttl: TTL * 2, ..least }, "10s at most"),
    ] {
        let error = backend.check(&demand).unwrap_err();
        assert!(matches!(error, crate::LockError::InvalidOptions { .. }));
        assert!(error.to_string().contains(reason), "{error}");
    }
    backend.check_key(&LockKey::new("abc").unwrap()).unwrap();
    for key in ["abcd", "a b"] {
        let error = backend.check_key(&LockKey::new(key).unwrap()).unwrap_err();
        assert!(matches!(error, crate::LockError::InvalidKey { .. }), "{error}");
    }
}
