//! Take-overs that end without a guard, on a store that replies only if the test says so, or refuses a repeated one.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::driver::LinkSeen;
use crate::{LockError, LockKey, LockManager, Ticket};
use distlock_store::{
    Abilities, Acquire, AcquireReply, EarlierCommands, LockStore, Release, ReleaseReply, Renew, RenewReply,
    Replace, ReplaceReply, StoreError, StoreEvents, StoredLock,
};

#[derive(Debug)]
struct Silent {
    started: UnboundedSender<StoreEvents>,
    asked: UnboundedSender<()>,
    refuses: Arc<AtomicBool>,
    /// Notified when the store is to reply.
    replies: Arc<Notify>,
}

impl LockStore for Silent {
    fn abilities(&self) -> Abilities {
        Abilities::default().replaces()
    }

    fn describe(&self) -> String {
        "a silent store".into()
    }

    async fn acquire(&self, _request: &Acquire) -> Result<AcquireReply, StoreError> {
        pending().await
    }

    async fn renew(&self, _request: &Renew) -> Result<RenewReply, StoreError> {
        pending().await
    }

    async fn release(&self, _request: &Release) -> Result<ReleaseReply, StoreError> {
        pending().await
    }

    async fn replace(&self, _request: &Replace) -> Result<ReplaceReply, StoreError> {
        self.asked.send(()).expect("the test goes on");
        if self.refuses.load(Ordering::Relaxed) {
            return Err(StoreError::refused("no permission"));
        }
        self.replies.notified().await;
        Ok(ReplaceReply::Replaced { fence: None })
    }

    async fn inspect(&self, _key: &str) -> Result<Option<StoredLock>, StoreError> {
        Ok(None)
    }

    async fn force_release(&self, _key: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn run(&self, events: StoreEvents) {
        self.started.send(events).expect("the test goes on");
        pending().await
    }
}

struct Rig {
    manager: LockManager,
    events: StoreEvents,
    commands: UnboundedReceiver<()>,
    refuses: Arc<AtomicBool>,
    replies: Arc<Notify>,
}

const SOON: Duration = Duration::from_millis(50);

impl Rig {
    async fn not_connected(unavailable_after: Duration) -> Rig {
        let ((started, mut starts), (asked, commands)) = (unbounded_channel(), unbounded_channel());
        let (refuses, replies) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let store = Silent { started, asked, refuses: refuses.clone(), replies: replies.clone() };
        let builder = LockManager::builder().store(store);
        let manager = builder.unavailable_after(unavailable_after).connect_lazy().unwrap();
        Rig { manager, events: starts.recv().await.unwrap(), commands, refuses, replies }
    }

    async fn connected(unavailable_after: Duration) -> Rig {
        let rig = Rig::not_connected(unavailable_after).await;
        rig.events.up(EarlierCommands::Ended);
        let link = rig.manager.core().link_within(Duration::from_secs(60)).await;
        assert!(matches!(link, LinkSeen::Up), "{link:?}");
        rig
    }

    /// How a take-over ends.
    fn take_over(&self) -> impl Future<Output = LockError> + use<> {
        let ticket = Ticket {
            prefix: "".into(),
            key: LockKey::new("k").unwrap(),
            owner: "dl1:other:1".into(),
            ttl: Duration::from_secs(10),
            fence: None,
        };
        let request = self.manager.take_over(&ticket);
        async { request.acquire().await.unwrap_err() }
    }
}

#[track_caller]
fn may_have_been_taken_over(error: &LockError, reason: &str) {
    assert!(error.is_unavailable() && error.is_unconfirmed() && error.retry_after().is_none(), "{error}");
    let text = error.to_string();
    assert!(text.contains("it may have been taken over") && text.contains(reason), "{text}");
}

#[track_caller]
fn may_be_repeated(error: &LockError) {
    assert!(error.is_unavailable() && !error.is_unconfirmed() && error.retry_after().is_some(), "{error}");
}

#[tokio::test]
async fn a_take_over_without_a_reply_may_have_happened() {
    let rig = Rig::connected(SOON).await;
    may_have_been_taken_over(&rig.take_over().await, "did not answer");
}

/// The reason in the error is that of the latest attempt to connect.
#[tokio::test]
async fn a_take_over_without_a_reply_may_have_happened_whatever_the_link_says_later() {
    for cause in [StoreError::not_sent, StoreError::later, StoreError::refused] {
        let mut rig = Rig::connected(SOON).await;
        let request = rig.take_over();
        let link_breaks = async {
            rig.commands.recv().await.unwrap();
            rig.events.down(StoreError::unknown("the connection broke"));
            rig.events.down(cause("no connection"));
        };
        let (error, ()) = tokio::join!(request, link_breaks);
        may_have_been_taken_over(&error, "no connection");
    }
}

#[tokio::test]
async fn a_take_over_that_is_refused_has_not_happened() {
    let rig = Rig::connected(Duration::from_secs(60)).await;
    rig.refuses.store(true, Ordering::Relaxed);
    may_be_repeated(&rig.take_over().await);
}

/// The first command may have been executed before the link broke.
#[tokio::test]
async fn a_take_over_that_is_refused_on_a_later_link_may_have_happened() {
    let mut rig = Rig::connected(Duration::from_secs(60)).await;
    let request = rig.take_over();
    let link_breaks = async {
        rig.commands.recv().await.unwrap();
        rig.refuses.store(true, Ordering::Relaxed);
        rig.events.down(StoreError::unknown("the connection broke"));
        rig.events.up(EarlierCommands::MayArrive);
    };
    let (error, ()) = tokio::join!(request, link_breaks);
    may_have_been_taken_over(&error, "no permission");
}

/// The store may have executed the command, and its reply is on the way.
#[tokio::test]
async fn a_take_over_without_a_reply_at_a_shutdown_may_have_happened() {
    let mut rig = Rig::connected(Duration::from_secs(60)).await;
    let request = rig.take_over();
    let shutdown = async {
        rig.commands.recv().await.unwrap();
        rig.manager.shutdown(Duration::ZERO).await
    };
    let (error, _) = tokio::join!(request, shutdown);
    may_have_been_taken_over(&error, "the manager was shut down");
}

/// The manager is shut down after the reply, and before the caller has noticed it.
#[tokio::test]
async fn a_take_over_that_is_lost_before_its_guard_exists_has_happened() {
    let mut rig = Rig::connected(Duration::from_secs(60)).await;
    let mut request = Box::pin(rig.take_over());
    timeout(Duration::ZERO, &mut request).await.unwrap_err();
    rig.commands.recv().await.unwrap();
    rig.replies.notify_one();
    while rig.manager.core().lease_handles() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    rig.manager.shutdown(Duration::ZERO).await;
    may_have_been_taken_over(&request.await, "lost before it could be used");
}

#[tokio::test]
async fn a_take_over_that_was_never_sent_may_be_repeated() {
    // Long enough for the store's own reply that nothing was sent, however busy the machine is. While the link is down,
    // nothing else is asked.
    let rig = Rig::not_connected(Duration::from_secs(2)).await;
    rig.events.down(StoreError::not_sent("no connection"));
    may_be_repeated(&rig.take_over().await);
}
