//! Wakers that panic, or that drop the future which they wake.

use std::panic::panic_any;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use distlock::{LockManager, Retry};
use distlock_tests::{Backend, RedisServer, eventually, until_renewed, until_waiting};

use super::{LONG, SOON, TTL, subscriber};

distlock_tests::suite![
    a_waker_that_panics_is_nobody_elses_trouble,
    a_waker_may_drop_the_future_that_it_wakes,
    when_the_thread_ends_all_the_same_everybody_is_told,
];

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("the waker panics on purpose");
    }
}

/// A panic while a panic is dropped, which escapes the code that catches the first one.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("the payload panics on purpose");
    }
}

struct PanickingTwice;

impl Wake for PanickingTwice {
    fn wake(self: Arc<Self>) {
        panic_any(PanicsWhenDropped);
    }
}

/// The manager's thread gets the replies of several servers, and wakes the caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_waker_that_panics_does_not_end_a_quorum() {
    let servers = [(); 3].map(|()| RedisServer::start());
    let urls = servers.each_ref().map(RedisServer::url);
    replies_wake_a_waker_that_panics(&LockManager::builder().quorum(urls).connect().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waker_that_panics_does_not_end_the_confirmations_of_replicas() {
    let server = RedisServer::options().arguments(&["--repl-diskless-sync-delay", "0"]).start();
    let of = format!("127.0.0.1 {}", server.port());
    let _replica = RedisServer::options().arguments(&["--replicaof", &of]).start();
    let builder = LockManager::builder().url(server.url()).replicas(1);
    let manager = builder.connect().await.unwrap();
    eventually("the replica follows", async || manager.lock("k").acquire().await.is_ok()).await;
    replies_wake_a_waker_that_panics(&manager).await;
}

async fn replies_wake_a_waker_that_panics(manager: &LockManager) {
    subscriber::start();
    let requests = (0..20).map(|number| {
        let mut request = Box::pin(manager.lock(format!("{number}")).ttl(LONG).acquire());
        drop(poll_with(Panicking, request.as_mut()));
        request
    });
    for request in requests.collect::<Vec<_>>() {
        let guard = tokio::time::timeout(SOON, request).await.expect("it is answered").unwrap();
        guard.release().await.unwrap();
    }
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}

fn poll_with<F: Future>(waker: impl Wake + Send + Sync + 'static, future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(waker))))
}

async fn a_waker_that_panics_is_nobody_elses_trouble(backend: Backend) {
    subscriber::start();
    let manager = backend.manager().await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let mut in_vain = Box::pin(manager.lock("k").ttl(LONG).wait(LONG).acquire());
    assert!(poll_with(Panicking, in_vain.as_mut()).is_pending());
    let (next, manager_of_next) = (manager.lock("k").wait(LONG).acquire(), manager.clone());
    let next = tokio::spawn(next);
    until_waiting(&manager_of_next, "k", 1).await;
    // The lock is granted to the request that cannot be woken, and is released when that is dropped.
    guard.release().await.unwrap();
    drop(in_vain);
    let next = tokio::time::timeout(SOON, next).await.expect("it is the next one's turn").unwrap().unwrap();
    next.release().await.unwrap();

    // This happens on the manager's thread. Other tasks that wait for the same end are notified, and timers still run.
    let ttl = Duration::from_millis(500);
    let guard = manager.lock("k").ttl(ttl).no_renew().acquire().await.unwrap();
    let mut first = Box::pin(guard.lost());
    assert!(poll_with(Panicking, first.as_mut()).is_pending());
    let last = tokio::time::timeout(SOON, guard.lost()).await.expect("it is told");
    assert!(last.is_lost(), "{last}");
    drop((first, guard));
    let kept = manager.lock("k").ttl(TTL).wait(SOON).acquire().await.unwrap();
    let busy = manager.lock("k").wait(ttl).acquire().await.unwrap_err();
    assert!(busy.is_busy(), "{busy}");
    until_renewed(&kept).await;
    kept.release().await.unwrap();
    backend.is_clean("k").await;
}

/// An executor that ends a task where it is woken.
#[derive(Default)]
struct DropsItsTask(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl DropsItsTask {
    /// The task waits when this returns.
    fn begin(future: impl Future<Output: Send> + Send + 'static) -> Arc<Self> {
        let drops = Arc::new(DropsItsTask::default());
        let mut task = Box::pin(async move { drop(future.await) });
        let waker = Waker::from(drops.clone());
        // Locked before the poll, because another thread may wake the task at once.
        let mut slot = drops.0.lock().unwrap();
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        *slot = Some(task);
        drop(slot);
        drops
    }

    fn has_dropped(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

impl Wake for DropsItsTask {
    fn wake(self: Arc<Self>) {
        let task = self.0.lock().unwrap().take();
        drop(task);
    }
}

/// If a mutex were locked meanwhile, the manager's thread would wait for itself.
async fn a_waker_may_drop_the_future_that_it_wakes(backend: Backend) {
    subscriber::start();
    let manager = backend.manager().await;
    let ttl = Duration::from_secs(1);
    let guard = manager.lock("k").ttl(ttl).no_renew().acquire().await.unwrap();
    let dropped = DropsItsTask::begin(guard.lost());
    eventually("the loss is noticed", async || dropped.has_dropped()).await;
    let kept = manager.lock("k").ttl(TTL).wait(SOON).acquire().await.unwrap();
    let busy = manager.lock("k").wait(ttl).acquire().await.unwrap_err();
    assert!(busy.is_busy(), "the thread watches timers: {busy}");
    until_renewed(&kept).await;

    let closing = manager.clone();
    let dropped = DropsItsTask::begin(async move { closing.shutdown(LONG).await });
    drop((guard, kept));
    eventually("the end of the hold is noticed", async || dropped.has_dropped()).await;
    shuts_down(&manager).await;
    backend.is_clean("k").await;
}

async fn when_the_thread_ends_all_the_same_everybody_is_told(backend: Backend) {
    subscriber::start();
    let (manager, other) = (backend.manager().await, backend.manager().await);
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiting = tokio::spawn(manager.lock("k").wait(LONG).acquire());
    until_waiting(&manager, "k", 1).await;
    let holding = manager.lock("body").run(async |_| std::future::pending::<()>().await);
    let holding = tokio::spawn(holding);
    let mut between_attempts = Box::pin(manager.lock("k").retry(Retry::times(3).delay(LONG)).acquire());
    assert!(between_attempts.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let between_attempts = tokio::spawn(between_attempts);
    let mut fatal = Box::pin(manager.lock("k").wait(Duration::from_millis(50)).acquire());
    assert!(poll_with(PanickingTwice, fatal.as_mut()).is_pending());

    let lost = tokio::time::timeout(SOON, guard.lost()).await.expect("the holder is told");
    assert!(lost.is_lost() && guard.check().is_err(), "{lost}");
    let stopped = tokio::time::timeout(SOON, holding).await.expect("the body is stopped").unwrap();
    assert!(stopped.unwrap_err().is_lost());
    let refused =
        tokio::time::timeout(SOON, waiting).await.expect("the waiter is told").unwrap().unwrap_err();
    is_told(&refused);
    let retried =
        tokio::time::timeout(SOON, between_attempts).await.expect("it does not wait for its next attempt");
    is_told(&retried.unwrap().unwrap_err());
    is_told(&manager.lock("free").acquire().await.unwrap_err());
    is_told(&manager.lock_all(["x", "y"]).acquire().await.unwrap_err());
    is_told(&manager.inspect("k").await.unwrap_err());
    let began = Instant::now();
    let retried = manager.lock("free").retry(Retry::times(1000).delay(LONG)).acquire().await;
    is_told(&retried.unwrap_err());
    assert!(began.elapsed() < SOON);
    drop(guard);
    shuts_down(&manager).await;
    // On a server, others get the lock when its time is over. In memory, all holders are in this process.
    if !backend.is_memory() {
        assert!(other.lock("free").try_acquire().await.unwrap().is_some());
        other.force_release("k").await.unwrap();
        other.force_release("body").await.unwrap();
    }
}

#[track_caller]
fn is_told(error: &distlock::LockError) {
    assert!(error.is_unavailable() && error.to_string().contains("I/O thread has ended"), "{error}");
}

/// The shutdown ends when no lock is held, and after the grace period at the latest.
async fn shuts_down(manager: &LockManager) {
    let report = tokio::time::timeout(SOON, manager.shutdown(Duration::from_millis(50))).await;
    let report = report.expect("a shutdown ends");
    assert_eq!((report.held, report.ignored), (0, 0), "{report:?}");
}
