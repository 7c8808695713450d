//! Commands that their callers poll, also when the callers are dropped.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::hazards::manager;
use super::*;
use crate::backend::{BoxFuture, Failure};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// An adapter whose I/O thread is not the test's, which polls as a caller does.
fn rig() -> (Runtime, Rig) {
    let io_thread = runtime();
    let rig = io_thread.block_on(Rig::up(Abilities::default()));
    (io_thread, rig)
}

/// A command in flight whose caller is polled when the test says so.
fn begun<O: SendTo>(rig: &Rig, key: &str, op: O) -> BoxFuture<OpResult<O::Reply>> {
    let Sending::Pending(mut answer) = op.send_to(&*rig.backend, &key.into()) else {
        panic!("not under way")
    };
    assert!(poll(answer.as_mut()).is_pending());
    answer
}

fn poll<F: Future + ?Sized>(answer: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    answer.poll(&mut Context::from_waker(Waker::noop()))
}

/// The store is asked for the next release, and answers.
async fn released(rig: &mut Rig) {
    let (_, answer) = rig.script.next_release().await;
    answer.send(Ok(ReleaseReply::Released)).unwrap();
}

#[test]
fn the_store_is_asked_and_answers_without_the_io_thread() {
    let io_thread = Builder::new_current_thread().enable_all().build().unwrap();
    let mut rig = io_thread.block_on(Rig::up(Abilities::default()));
    // From here on no thread runs that runtime.
    let mut acquiring = begun(&rig, "k", attempt(1));
    let Ok(Call::Acquire(_, answer)) = rig.script.calls.try_recv() else { panic!("not asked") };
    answer.send(acquired()).unwrap();
    assert!(matches!(poll(acquiring.as_mut()), Poll::Ready(Ok(protocol::AcquireReply::Acquired { .. }))));
    assert!(rig.backend.lanes.lock().is_empty());
}

#[test]
fn a_command_whose_caller_is_dropped_goes_on_and_keeps_its_turn() {
    let (io_thread, mut rig) = rig();
    let acquiring = begun(&rig, "k", attempt(1));
    io_thread.block_on(async {
        let (_, answer) = rig.script.next_acquire().await;
        drop(acquiring);
        let release = rig.send("k", leave(1));
        rig.script.is_quiet().await;
        answer.send(acquired()).unwrap();
        released(&mut rig).await;
        release.await.unwrap().unwrap();
    });
    assert!(rig.backend.lanes.lock().is_empty());
}

#[test]
fn a_command_that_is_handed_to_the_io_thread_goes_on_there() {
    let (io_thread, mut rig) = rig();
    let acquiring = begun(&rig, "k", attempt(1));
    io_thread.block_on(async {
        let acquiring = tokio::spawn(acquiring);
        let (_, answer) = rig.script.next_acquire().await;
        answer.send(acquired()).unwrap();
        let reply = acquiring.await.unwrap();
        assert!(matches!(reply, Ok(protocol::AcquireReply::Acquired { .. })), "{reply:?}");
    });
    assert!(rig.backend.lanes.lock().is_empty());
}

#[test]
fn a_panic_of_the_store_is_an_answer_that_did_not_come() {
    let (io_thread, mut rig) = rig();
    let mut acquiring = begun(&rig, "k", attempt(1));
    let release = {
        let _entered = io_thread.enter();
        rig.send("k", leave(1))
    };
    let (_, answer) = io_thread.block_on(rig.script.next_acquire());
    drop(answer);
    let Poll::Ready(Err(error)) = poll(acquiring.as_mut()) else { panic!("no answer") };
    assert_eq!(error.kind, Failure::Unknown, "{error}");
    assert!(error.to_string().contains("panic"), "{error}");
    io_thread.block_on(async {
        released(&mut rig).await;
        release.await.unwrap().unwrap();
    });
}

#[test]
fn a_command_outlives_the_runtime_of_its_caller() {
    let (io_thread, mut rig) = rig();
    let callers = runtime();
    let acquiring = begun(&rig, "k", attempt(1));
    let caller = callers.spawn(acquiring);
    let (_, answer) = io_thread.block_on(rig.script.next_acquire());
    callers.shutdown_background();
    io_thread.block_on(async {
        let release = rig.send("k", leave(1));
        assert!(caller.await.unwrap_err().is_cancelled());
        answer.send(acquired()).unwrap();
        released(&mut rig).await;
        release.await.unwrap().unwrap();
    });
}

#[test]
fn a_caller_that_is_left_by_the_io_thread_learns_of_it() {
    let (io_thread, mut rig) = rig();
    let acquiring = begun(&rig, "k", attempt(1));
    // Handed to that thread, which ends.
    let caller = io_thread.spawn(acquiring);
    let _answer = io_thread.block_on(rig.script.next_acquire());
    io_thread.shutdown_timeout(Duration::from_secs(10));
    let callers = runtime();
    assert!(callers.block_on(caller).unwrap_err().is_cancelled());
    match attempt(3).send_to(&*rig.backend, &"other".into()) {
        Sending::Ready(result) => drop(result.unwrap_err()),
        Sending::Pending(answer) => drop(callers.block_on(answer).unwrap_err()),
    }
}

/// The driver takes over only commands that it awaits itself.
#[tokio::test]
async fn a_forced_release_keeps_nobody_waiting_whose_caller_is_not_polled() {
    let backend = StoreBackend::new(Counting::default(), "c".into(), "p:".into(), ConnectOn::Start);
    let record = Arc::new(Record::default());
    let io_thread = runtime();
    io_thread.spawn(backend.clone().run(record.clone()));
    while record.len() == 0 {
        tokio::task::yield_now().await;
    }
    let _unpolled = backend.force_release(&"k".into());
    while !backend.lanes.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    io_thread.shutdown_background();
}

/// With a whole manager: its I/O thread takes the command over.
#[tokio::test]
async fn others_do_not_wait_for_a_caller_that_is_not_polled() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let acquiring = tokio::spawn(manager.lock("k").acquire());
    script.next_acquire().await.1.send(acquired()).unwrap();
    let guard = acquiring.await.unwrap().unwrap();
    let mut releasing = pin!(guard.release());
    assert!(poll(releasing.as_mut()).is_pending());
    script.next_release().await.1.send(Ok(ReleaseReply::NotHeld)).unwrap();
    let next = tokio::spawn(manager.lock("k").acquire());
    script.next_acquire().await.1.send(acquired()).unwrap();
    let _next = next.await.unwrap().unwrap();
    // The caller gets the answer, however late it is polled.
    releasing.await.unwrap_err();
}

/// Yields before it answers. Each token gets its own number as its fence.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl LockStore for Counting {
    fn abilities(&self) -> Abilities {
        Abilities::default().fencing(distlock_store::Fencing::OneByOne)
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
        // The number of the owner that asked.
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

/// Callers on two threads poll, are dropped or wait.
#[test]
fn every_command_is_answered_once_whoever_polls_it() {
    const CALLERS: u64 = 16;
    const COMMANDS: u64 = 500;
    let (io_thread, callers) =
        (runtime(), Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
    let backend = StoreBackend::new(Counting::default(), "c".into(), "p:".into(), ConnectOn::Start);
    let record = Arc::new(Record::default());
    io_thread.spawn(backend.clone().run(record.clone()));
    while record.len() == 0 {
        thread::yield_now();
    }
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
    let start = Instant::now();
    while !backend.lanes.lock().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "a turn is not given up");
        thread::yield_now();
    }
}
