//! A process that forks while its callers poll commands of a store.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use distlock::store::{
    Acquire, AcquireReply, EarlierCommands, LockStore, Release, ReleaseReply, Renew, RenewReply, StoreError,
    StoreEvents, StoredLock,
};
use distlock::{LockError, LockManager};
use fork::Fork;
use tokio::sync::{Notify, watch};

use super::{AT_ONCE, is_told, watch_out};

/// A store whose callers poll its commands. It replies when the test says so.
#[derive(Clone, Debug)]
struct Slow(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    answers: watch::Sender<bool>,
    asked: AtomicUsize,
    answered: AtomicUsize,
    /// The I/O thread stops at `stopped` twice. Between the two, it takes over no command.
    stop: Notify,
    stopped: Barrier,
}

impl Slow {
    fn new() -> Self {
        Slow(Arc::new(Shared {
            answers: watch::Sender::new(false),
            asked: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            stop: Notify::new(),
            stopped: Barrier::new(2),
        }))
    }

    async fn say<T>(&self, reply: T) -> Result<T, StoreError> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.0.answers.subscribe().wait_for(|answers| *answers).await.map(drop);
        answers.map_err(StoreError::unknown)?;
        self.0.answered.fetch_add(1, Ordering::SeqCst);
        Ok(reply)
    }

    fn counts(&self) -> (usize, usize) {
        (self.0.asked.load(Ordering::SeqCst), self.0.answered.load(Ordering::SeqCst))
    }
}

impl LockStore for Slow {
    fn describe(&self) -> String {
        "a slow store".into()
    }

    async fn acquire(&self, _request: &Acquire) -> Result<AcquireReply, StoreError> {
        self.say(AcquireReply::Acquired { fence: None }).await
    }

    async fn renew(&self, _request: &Renew) -> Result<RenewReply, StoreError> {
        self.say(RenewReply::Renewed).await
    }

    async fn release(&self, _request: &Release) -> Result<ReleaseReply, StoreError> {
        self.say(ReleaseReply::Released).await
    }

    async fn inspect(&self, _key: &str) -> Result<Option<StoredLock>, StoreError> {
        self.say(None).await
    }

    async fn force_release(&self, _key: &str) -> Result<bool, StoreError> {
        self.say(false).await
    }

    async fn run(&self, events: StoreEvents) {
        events.up(EarlierCommands::Ended);
        loop {
            self.0.stop.notified().await;
            self.0.stopped.wait();
            self.0.stopped.wait();
        }
    }
}

/// Held by the waker of the caller. If the child touched the command, it would drop this.
struct Caller;

impl Wake for Caller {
    fn wake(self: Arc<Self>) {}
}

type Asking<T> = Pin<Box<dyn Future<Output = Result<T, LockError>>>>;

struct Polled {
    caller: Arc<Caller>,
    acquiring: Asking<distlock::Guard>,
    inspecting: Asking<bool>,
    dropped: Asking<bool>,
}

/// Polls once. `Pending`: the caller has the command.
fn poll<T>(asking: &mut Asking<T>, caller: &Arc<Caller>) -> Poll<Result<T, LockError>> {
    asking.as_mut().poll(&mut Context::from_waker(&Waker::from(caller.clone())))
}

pub(super) fn forked_while_polled() {
    let store = Slow::new();
    let blocking =
        distlock::blocking::LockManager::builder().store(store.clone()).connect_blocking().unwrap();
    let manager = LockManager::from(blocking);
    store.0.stop.notify_one();
    store.0.stopped.wait();
    let inspect = |key: &'static str| -> Asking<bool> {
        let manager = manager.clone();
        Box::pin(async move { manager.inspect(key).await.map(|found| found.is_some()) })
    };
    let mut polled = Polled {
        caller: Arc::new(Caller),
        acquiring: Box::pin(manager.lock("acquired").acquire()),
        inspecting: inspect("inspected"),
        dropped: inspect("dropped"),
    };
    assert!(poll(&mut polled.acquiring, &polled.caller).is_pending());
    assert!(poll(&mut polled.inspecting, &polled.caller).is_pending());
    assert!(poll(&mut polled.dropped, &polled.caller).is_pending());
    // The requests wait for the I/O thread.
    assert_eq!(store.counts(), (1, 0));
    match fork::fork().unwrap() {
        Fork::Child => {
            watch_out();
            in_the_child(polled);
            assert_eq!(store.counts(), (1, 0));
            // Exits without dropping the values in scope, because they are copies of the parent's values.
            std::process::exit(0);
        }
        Fork::Parent(child) => {
            assert_eq!(fork::waitpid(child).unwrap(), 0, "the child");
            store.0.stopped.wait();
            in_the_parent(polled, &store);
        }
    }
    println!("ok");
}

fn in_the_child(polled: Polled) {
    let Polled { caller, mut acquiring, mut inspecting, dropped } = polled;
    let began = Instant::now();
    let held = Arc::strong_count(&caller);
    let Poll::Ready(result) = poll(&mut inspecting, &caller) else { panic!("it goes on in the child") };
    is_told(result);
    let Poll::Ready(result) = poll(&mut acquiring, &caller) else { panic!("it goes on in the child") };
    is_told(result);
    drop((acquiring, inspecting, dropped));
    assert_eq!(Arc::strong_count(&caller), held, "the parent's command is touched");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

/// In the parent, everything is unchanged.
fn in_the_parent(polled: Polled, store: &Slow) {
    let Polled { acquiring, mut inspecting, dropped, caller } = polled;
    assert!(poll(&mut inspecting, &caller).is_pending());
    store.0.answers.send_replace(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert!(!inspecting.await.unwrap());
        assert!(!dropped.await.unwrap());
        let guard = acquiring.await.unwrap();
        assert_eq!(store.counts(), (3, 3));
        guard.release().await.unwrap();
    });
}
