//! Commands that their callers poll: whatever becomes of the callers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::backend::{BoxFuture, Failure};
use crate::take_over::TICK;

const TIME_OUT: Duration = crate::backend::LATE_COMMANDS;

fn lending() -> Abilities {
    queueing().polled_by_callers()
}

/// A command under way whose caller is polled when the test says so.
fn begun<O: SendTo>(rig: &Rig, key: &str, op: O) -> BoxFuture<OpResult<O::Reply>> {
    let Sending::Pending(mut answer) = op.send_to(&*rig.backend, &key.into()) else {
        panic!("not under way")
    };
    assert!(poll(&mut answer).is_pending());
    answer
}

fn poll<T>(answer: &mut BoxFuture<T>) -> Poll<T> {
    answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// The next release is asked for, and answered.
async fn released(rig: &mut Rig) {
    let (_, answer) = rig.script.next_release().await;
    answer.send(Ok(ReleaseReply::Released)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_store_is_asked_and_answers_without_the_io_thread() {
    let mut rig = Rig::up(lending()).await;
    // Nothing but this task runs from here on: it awaits nothing.
    let mut acquiring = begun(&rig, "k", attempt(1));
    let Ok(Call::Acquire(_, answer)) = rig.script.calls.try_recv() else { panic!("not asked") };
    answer.send(acquired()).unwrap();
    assert!(matches!(poll(&mut acquiring), Poll::Ready(Ok(protocol::AcquireReply::Acquired { .. }))));
    assert!(lock(&rig.backend.lanes).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_caller_is_dropped_goes_on_and_keeps_its_turn() {
    let mut rig = Rig::up(lending()).await;
    let acquiring = begun(&rig, "k", attempt(1));
    let (_, answer) = rig.script.next_acquire().await;
    drop(acquiring);
    let release = rig.send("k", leave(1));
    rig.script.is_quiet().await;
    answer.send(acquired()).unwrap();
    released(&mut rig).await;
    release.await.unwrap().unwrap();
    assert!(lock(&rig.backend.lanes).is_empty());
}

#[tokio::test(start_paused = true)]
async fn others_do_not_wait_for_a_caller_that_is_not_polled() {
    let mut rig = Rig::up(lending()).await;
    let start = tokio::time::Instant::now();
    let mut acquiring = begun(&rig, "k", attempt(1));
    let (_, answer) = rig.script.next_acquire().await;
    let release = rig.send("k", leave(1));
    rig.script.is_quiet().await;
    answer.send(acquired()).unwrap();
    released(&mut rig).await;
    // At the second look, which is before a third one.
    assert!(start.elapsed() < 3 * TICK, "{:?}", start.elapsed());
    release.await.unwrap().unwrap();
    // The caller learns what it was answered, however late it is polled.
    assert!(matches!(poll(&mut acquiring), Poll::Ready(Ok(protocol::AcquireReply::Acquired { .. }))));
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_a_store_that_takes_long_and_no_longer_than_for_any_other() {
    let mut rig = Rig::up(lending()).await;
    let slow = rig.send("slow", attempt(1));
    let stuck = rig.send("k", enter(2, AcquireMode::Wait, 0));
    let (_, slow_answer) = rig.script.next_acquire().await;
    let (_, answer) = rig.script.next_acquire().await;
    let start = tokio::time::Instant::now();
    tokio::time::sleep(TIME_OUT / 2).await;
    slow_answer.send(acquired()).unwrap();
    slow.await.unwrap().unwrap();
    let error = stuck.await.unwrap().unwrap_err();
    assert_eq!(error.kind, Failure::Unknown, "{error}");
    assert!(start.elapsed() < TIME_OUT + Duration::from_millis(100), "{:?}", start.elapsed());
    let release = rig.send("k", leave(2));
    rig.script.is_quiet().await;
    answer.send(acquired()).unwrap();
    released(&mut rig).await;
    // Told before others have their turn.
    assert_eq!(rig.told(), [Told::Notice(Notice::Unproven { key: "k".into(), token: Token(2) })]);
    release.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_panic_of_the_store_is_an_answer_that_did_not_come() {
    let mut rig = Rig::up(lending()).await;
    let mut acquiring = begun(&rig, "k", attempt(1));
    let release = rig.send("k", leave(1));
    let (_, answer) = rig.script.next_acquire().await;
    drop(answer);
    let Poll::Ready(Err(error)) = poll(&mut acquiring) else { panic!("no answer") };
    assert_eq!(error.kind, Failure::Unknown, "{error}");
    assert!(error.to_string().contains("panic"), "{error}");
    released(&mut rig).await;
    release.await.unwrap().unwrap();
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[tokio::test]
async fn a_command_outlives_the_runtime_of_its_caller() {
    let mut rig = Rig::up(lending()).await;
    let callers = runtime();
    let acquiring = begun(&rig, "k", attempt(1));
    let caller = callers.spawn(acquiring);
    let (_, answer) = rig.script.next_acquire().await;
    callers.shutdown_background();
    let release = rig.send("k", leave(1));
    assert!(caller.await.unwrap_err().is_cancelled());
    answer.send(acquired()).unwrap();
    released(&mut rig).await;
    release.await.unwrap().unwrap();
}

#[test]
fn callers_learn_of_the_end_of_the_io_thread() {
    let (home, callers) = (runtime(), runtime());
    let mut rig = home.block_on(Rig::up(lending()));
    // One of them is polled by its caller, the other one has gone home.
    let old = callers.spawn(begun(&rig, "old", attempt(1)));
    let _answers = home.block_on(rig.script.next_acquire());
    for _ in 0..2 {
        rig.backend.lookout.hurry();
    }
    let young = callers.spawn(begun(&rig, "young", attempt(2)));
    home.shutdown_timeout(Duration::from_secs(10));
    for caller in [old, young] {
        let error = callers.block_on(caller).unwrap().unwrap_err();
        assert_eq!(error.kind, Failure::Unknown, "{error}");
    }
    match attempt(3).send_to(&*rig.backend, &"k".into()) {
        Sending::Ready(result) => drop(result.unwrap_err()),
        Sending::Pending(answer) => drop(callers.block_on(answer).unwrap_err()),
    }
}

/// Yields before it answers, and answers with a number of its own.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl LockStore for Counting {
    fn abilities(&self) -> Abilities {
        Abilities::default().fencing(distlock_store::Fencing::OneByOne).polled_by_callers()
    }

    fn describe(&self) -> String {
        "the store that counts".into()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        tokio::task::yield_now().await;
        let asked = self.0.fetch_add(1, Ordering::Relaxed);
        if asked.is_multiple_of(64) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::spawn(tokio::task::yield_now()).await.map_err(StoreError::unknown)?;
        // Of the owner that asked.
        let token = crate::backend::parse_token("c", request.owner.as_str());
        Ok(AcquireReply::Acquired { fence: token.map(|token| token.0) })
    }

    async fn renew(&self, _request: &Renew) -> Result<RenewReply, StoreError> {
        Ok(RenewReply::Renewed)
    }

    async fn release(&self, _request: &Release) -> Result<ReleaseReply, StoreError> {
        tokio::task::yield_now().await;
        Ok(ReleaseReply::Released)
    }

    async fn inspect(&self, _key: &str) -> Result<Option<StoredLock>, StoreError> {
        Ok(None)
    }

    async fn force_release(&self, _key: &str) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Callers on two threads poll, are dropped or wait, while somebody calls their commands home all the time.
#[test]
fn every_command_is_answered_once_whoever_polls_it() {
    const CALLERS: u64 = 16;
    const COMMANDS: u64 = 500;
    let (home, callers) =
        (runtime(), Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
    let backend = StoreBackend::new(Counting::default(), "c".into(), "p:".into(), ConnectOn::Start);
    let record = Arc::new(Record::default());
    home.spawn(backend.clone().run(record.clone()));
    while record.len() == 0 {
        thread::yield_now();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                backend.lookout.hurry();
                thread::yield_now();
            }
        });
        callers.block_on(async {
            let mut running = tokio::task::JoinSet::new();
            for caller in 0..CALLERS {
                let backend = backend.clone();
                running.spawn(async move {
                    // Two on each key: some wait for their turn.
                    let key: Arc<str> = format!("{}", caller / 2).into();
                    for command in 0..COMMANDS {
                        let token = caller * COMMANDS + command + 1;
                        let sending = backend.send_acquire(&key, enter(token, AcquireMode::Try, 1).into());
                        let Sending::Pending(answer) = sending else { panic!("not under way") };
                        if command.is_multiple_of(7) {
                            drop(tokio::time::timeout(Duration::ZERO, answer).await);
                            continue;
                        }
                        match answer.await.unwrap() {
                            protocol::AcquireReply::Acquired { fence, .. } => assert_eq!(fence, Some(token)),
                            other => panic!("{other:?}"),
                        }
                    }
                });
            }
            while let Some(ended) = running.join_next().await {
                ended.unwrap();
            }
        });
        done.store(true, Ordering::Relaxed);
    });
    let start = Instant::now();
    while !lock(&backend.lanes).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "a turn is not given up");
        thread::yield_now();
    }
}
