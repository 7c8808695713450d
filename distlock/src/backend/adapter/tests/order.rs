//! The order of the operations on the store, and how long callers wait for it.

use std::time::Duration;

use super::*;
use crate::backend::Failure;

const TIME_OUT: Duration = crate::backend::LATE_COMMANDS;

#[tokio::test(start_paused = true)]
async fn operations_on_one_key_follow_each_other_and_others_do_not_wait() {
    let mut rig = Rig::up(Abilities::default()).await;
    let first = rig.send("k", attempt(1));
    let release = rig.send("k", leave(1));
    let other = rig.send("j", attempt(2));
    let (k, answer_k) = rig.script.next_acquire().await;
    let (j, answer_j) = rig.script.next_acquire().await;
    assert_eq!((&*k.key, &*j.key), ("p:k", "p:j"));
    rig.script.is_quiet().await;
    answer_j.send(acquired()).unwrap();
    assert!(matches!(other.await.unwrap(), Ok(protocol::AcquireReply::Acquired { .. })));
    rig.script.is_quiet().await;
    answer_k.send(acquired()).unwrap();
    assert!(matches!(first.await.unwrap(), Ok(protocol::AcquireReply::Acquired { .. })));
    let (released, answer) = rig.script.next_release().await;
    assert_eq!(released.owner, owner(1));
    answer.send(Ok(ReleaseReply::Released)).unwrap();
    assert!(matches!(release.await.unwrap(), Ok(protocol::ReleaseReply::Released { gap: false })));
    assert!(rig.backend.lanes.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_overtake_an_acquisition_that_has_timed_out() {
    let mut rig = Rig::up(Abilities::default()).await;
    let stuck = rig.send("k", attempt(1));
    let (_, answer) = rig.script.next_acquire().await;
    let error = stuck.await.unwrap().unwrap_err();
    assert_eq!(error.kind, Failure::Unknown, "{error}");
    let release = rig.send("k", leave(1));
    rig.script.is_quiet().await;
    answer.send(acquired()).unwrap();
    let (_, answer) = rig.script.next_release().await;
    // The engine, which no longer waits for the command, learns that there is something to release.
    assert_eq!(rig.told(), [Told::Notice(PushHint::Unproven { key: "k".into(), token: Token(1) })]);
    answer.send(Ok(ReleaseReply::Released)).unwrap();
    release.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_never_ends_is_waited_for_so_long_and_heard_even_then() {
    let mut rig = Rig::up(queueing()).await;
    let stuck = rig.send("k", enter(1, AcquireMode::Wait, 0));
    let (_, answer) = rig.script.next_acquire().await;
    stuck.await.unwrap().unwrap_err();
    let release = rig.send("k", leave(1));
    let start = tokio::time::Instant::now();
    let (_, released) = rig.script.next_release().await;
    assert!(start.elapsed() >= TIME_OUT, "{:?}", start.elapsed());
    released.send(Ok(ReleaseReply::NotHeld)).unwrap();
    assert!(matches!(release.await.unwrap(), Ok(protocol::ReleaseReply::NotHeld)));
    // It has left a place in the queue.
    answer.send(Ok(AcquireReply::Busy(distlock_store::Busy::by("dl1:other:1")))).unwrap();
    rig.until_told().await;
    assert_eq!(rig.told(), [Told::Notice(PushHint::Unproven { key: "k".into(), token: Token(1) })]);
}

#[tokio::test(start_paused = true)]
async fn a_late_refusal_leaves_nothing_to_give_back() {
    let mut rig = Rig::up(Abilities::default()).await;
    let stuck = rig.send("k", enter(1, AcquireMode::Wait, 0));
    let (request, answer) = rig.script.next_acquire().await;
    assert_eq!(request.queue, None, "a store that is polled keeps no queue");
    stuck.await.unwrap().unwrap_err();
    answer.send(Ok(AcquireReply::Busy(distlock_store::Busy::by("dl1:other:1")))).unwrap();
    rig.script.is_quiet().await;
    assert_eq!(rig.told(), []);
}

#[tokio::test(start_paused = true)]
async fn a_panic_counts_as_unknown_and_the_next_operation_has_its_turn() {
    let mut rig = Rig::up(Abilities::default()).await;
    let first = rig.send("k", attempt(1));
    let next = rig.send("k", leave(1));
    let (_, answer) = rig.script.next_acquire().await;
    drop(answer);
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(error.kind, Failure::Unknown, "{error}");
    assert!(error.to_string().contains("panic"), "{error}");
    let (_, answer) = rig.script.next_release().await;
    answer.send(Ok(ReleaseReply::NotHeld)).unwrap();
    assert!(matches!(next.await.unwrap(), Ok(protocol::ReleaseReply::NotHeld)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_store_is_up_nor_while_it_is_down() {
    let mut rig = Rig::down(Abilities::default()).await;
    let early = rig.send("k", attempt(1)).await.unwrap().unwrap_err();
    assert_eq!(early.kind, Failure::NotSent);
    rig.events.up(EarlierCommands::MayArrive);
    rig.until_told().await;
    assert_eq!(
        rig.told(),
        [Told::Up { earlier: EarlierCommands::Ended, pushes: Notifications::Off }],
        "nothing was sent before"
    );
    let sent = rig.send("k", attempt(2));
    let waiting = rig.send("k", leave(2));
    let (_, answer) = rig.script.next_acquire().await;
    rig.events.down(StoreError::unknown("the line is cut"));
    rig.until_told().await;
    answer.send(Err(StoreError::unknown("the line is cut"))).unwrap();
    assert_eq!(sent.await.unwrap().unwrap_err().kind, Failure::Unknown);
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!((error.kind, error.to_string().as_str()), (Failure::NotSent, "the line is cut"));
    rig.events.up(EarlierCommands::MayArrive);
    rig.script.is_quiet().await;
    assert_eq!(
        rig.told(),
        [Told::Down, Told::Up { earlier: EarlierCommands::MayArrive, pushes: Notifications::Off }]
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_store_is_wanted_with_the_first_request() {
    let (store, mut script) = scripted(Abilities::default());
    let backend = StoreBackend::new(store, "c".into(), String::new(), ConnectOn::FirstUse);
    tokio::spawn(backend.clone().run(Arc::new(Record::default())));
    let events = script.events().await;
    let wanted = tokio::spawn(async move { events.wanted().await });
    script.is_quiet().await;
    assert!(!wanted.is_finished());
    drop(backend.send_acquire(&"k".into(), attempt(1).into()));
    wanted.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_work_panics_is_not_asked_until_it_is_up_again() {
    let (store, mut script) = scripted(Abilities::default());
    let backend = StoreBackend::new(store, "c".into(), String::new(), ConnectOn::Start);
    let record = Arc::new(Record::default());
    let work = tokio::spawn(backend.clone().run(record.clone()));
    script.events().await.up(EarlierCommands::Ended);
    while record.0.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    // The effect of a panic on the order.
    work.abort();
    assert!(work.await.unwrap_err().is_cancelled());
    let sending = backend.send_acquire(&"k".into(), attempt(1).into());
    assert!(matches!(sending, crate::backend::Sending::Ready(Err(error)) if error.kind == Failure::NotSent));
    tokio::spawn(backend.clone().run(record.clone()));
    script.events().await.up(EarlierCommands::MayArrive);
    while record.0.lock().len() < 2 {
        tokio::task::yield_now().await;
    }
    let sending = backend.send_acquire(&"k".into(), attempt(1).into());
    let crate::backend::Sending::Pending(asked) = sending else { panic!("not asked") };
    let _asked = tokio::spawn(asked);
    let (_, answer) = script.next_acquire().await;
    answer.send(acquired()).unwrap();
}
