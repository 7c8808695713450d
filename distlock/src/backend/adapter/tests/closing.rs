//! A store is closed when the manager has ended, and not before.

use super::hazards::{busy, manager};
use super::*;
use crate::{LockError, LockManager, LostReason, Retry};

/// Answers at once, and records the operations.
#[derive(Debug)]
struct Ending {
    asked: mpsc::UnboundedSender<&'static str>,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Comes,
    NeverComes,
    Panics,
    /// The replies to releases never come.
    WithoutReplies,
}

impl Ending {
    fn is_asked(&self, what: &'static str) {
        // The test may have ended.
        let _: Result<(), _> = self.asked.send(what);
    }
}

impl LockStore for Ending {
    fn describe(&self) -> String {
        "the store that ends".into()
    }

    async fn acquire(&self, _request: &Acquire) -> Result<AcquireReply, StoreError> {
        self.is_asked("acquire");
        acquired()
    }

    async fn renew(&self, _request: &Renew) -> Result<RenewReply, StoreError> {
        Ok(RenewReply::Renewed)
    }

    async fn release(&self, _request: &Release) -> Result<ReleaseReply, StoreError> {
        self.is_asked("release");
        if let End::WithoutReplies = self.end {
            std::future::pending::<()>().await;
        }
        Ok(ReleaseReply::Released)
    }

    async fn inspect(&self, _key: &str) -> Result<Option<StoredLock>, StoreError> {
        Ok(None)
    }

    async fn force_release(&self, _key: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn close(&self) {
        self.is_asked("close");
        match self.end {
            End::Comes | End::WithoutReplies => {}
            End::NeverComes => std::future::pending().await,
            End::Panics => panic!("the store's own defect"),
        }
    }
}

async fn begin(end: End) -> (LockManager, mpsc::UnboundedReceiver<&'static str>) {
    let (asked, heard) = mpsc::unbounded_channel();
    let manager = LockManager::builder().store(Ending { asked, end }).connect().await.unwrap();
    (manager, heard)
}

#[tokio::test]
async fn it_is_told_once_after_the_last_release_and_the_shutdown_waits_for_it() {
    let (manager, mut heard) = begin(End::Comes).await;
    let guard = manager.lock("k").acquire().await.unwrap();
    let closing = manager.clone();
    let closing = tokio::spawn(async move { closing.shutdown(TTL).await });
    assert_eq!(heard.recv().await, Some("acquire"));
    // The runtime has one thread: the shutdown runs as far as it can, and has counted the lock.
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    let report = closing.await.unwrap();
    assert_eq!((report.held, report.lost, report.unconfirmed), (1, 0, 0), "{report:?}");
    assert_eq!((heard.try_recv(), heard.try_recv()), (Ok("release"), Ok("close")));
    manager.shutdown(TTL).await;
    drop(manager);
    assert_eq!(heard.recv().await, None, "not told again before it is dropped");
}

#[tokio::test]
async fn it_is_not_told_while_somebody_holds_on_to_a_lock() {
    let (manager, mut heard) = begin(End::Comes).await;
    let guard = manager.lock("k").acquire().await.unwrap();
    let report = manager.shutdown(Duration::ZERO).await;
    assert_eq!((report.lost, report.ignored), (1, 1), "{report:?}");
    assert_eq!((heard.try_recv(), heard.try_recv().ok()), (Ok("acquire"), None));
    drop((guard, manager));
    assert_eq!((heard.recv().await, heard.recv().await), (Some("release"), Some("close")));
    assert_eq!(heard.recv().await, None);
}

#[tokio::test]
async fn it_is_told_when_the_last_handle_is_dropped() {
    let (manager, mut heard) = begin(End::Comes).await;
    drop(manager);
    assert_eq!((heard.recv().await, heard.recv().await), (Some("close"), None));
}

#[tokio::test]
async fn a_shutdown_ends_although_the_store_does_not() {
    for end in [End::NeverComes, End::Panics] {
        let (manager, mut heard) = begin(end).await;
        manager.shutdown(Duration::ZERO).await;
        assert_eq!(heard.recv().await, Some("close"));
        drop(manager);
        assert_eq!(heard.recv().await, None, "its thread ends, too: {end:?}");
    }
}

/// A lock that is lost in the shutdown, one whose guard was dropped, and one whose section waits for the reply.
#[tokio::test]
async fn releases_without_a_reply_are_counted_and_the_store_is_closed_nevertheless() {
    let (manager, mut heard) = begin(End::WithoutReplies).await;
    let running = tokio::spawn(manager.lock("running").run(async |_| std::future::pending::<()>().await));
    assert_eq!(heard.recv().await, Some("acquire"));
    drop(manager.lock("dropped").acquire().await.unwrap());
    let releasing = tokio::spawn(manager.lock("releasing").run(async |held| held.check()));
    for asked in ["acquire", "release", "acquire", "release"] {
        assert_eq!(heard.recv().await, Some(asked));
    }
    let report = manager.shutdown(Duration::ZERO).await;
    assert_eq!((report.lost, report.ignored, report.unconfirmed), (1, 0, 3), "{report:?}");
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Shutdown, .. }), "{error}");
    assert_eq!((heard.recv().await, heard.recv().await), (Some("release"), Some("close")));
    assert!(!releasing.is_finished());
}

/// Commands wait for a release without a reply. After the end of the manager, no command gets its turn.
#[tokio::test]
async fn a_store_is_dropped_although_commands_wait_for_one_without_a_reply() {
    let (manager, mut heard) = begin(End::WithoutReplies).await;
    drop(manager.lock("k").acquire().await.unwrap());
    assert_eq!((heard.recv().await, heard.recv().await), (Some("acquire"), Some("release")));
    // Its acquisition waits, and the release of what that may acquire.
    tokio::time::timeout(Duration::ZERO, manager.lock("k").acquire()).await.unwrap_err();
    drop(manager);
    assert_eq!(heard.recv().await, Some("close"));
    let dropped = tokio::time::timeout(TTL, heard.recv()).await;
    assert_eq!(dropped.expect("the store is dropped"), None);
}

#[tokio::test]
async fn a_request_between_two_attempts_is_refused_at_once() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let request = manager.lock("k").retry(Retry::times(3).delay(Duration::from_secs(600)));
    let request = tokio::spawn(request.acquire());
    script.next_acquire().await.1.send(busy()).unwrap();
    script.is_quiet().await;
    manager.shutdown(Duration::ZERO).await;
    let refused = tokio::time::timeout(TTL, request).await.expect("it does not wait for its next attempt");
    assert!(matches!(refused.unwrap(), Err(LockError::Closed)));
}
