//! Take-overs that end without a reply, on a store that answers none of them, or refuses a repeated one.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

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
        pending().await
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
}

const SOON: Duration = Duration::from_millis(50);

impl Rig {
    async fn not_connected(unavailable_after: Duration) -> Rig {
        let ((started, mut starts), (asked, commands)) = (unbounded_channel(), unbounded_channel());
        let refuses = Arc::new(AtomicBool::new(false));
        let builder = LockManager::builder().store(Silent { started, asked, refuses: refuses.clone() });
        let manager = builder.unavailable_after(unavailable_after).connect_lazy().unwrap();
        Rig { manager, events: starts.recv().await.unwrap(), commands, refuses }
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

#[tokio::test]
async fn a_take_over_that_was_never_sent_may_be_repeated() {
    // Long enough for the store's own reply that nothing was sent, however busy the machine is. While the link is down,
    // nothing else is asked.
    let rig = Rig::not_connected(Duration::from_secs(2)).await;
    rig.events.down(StoreError::not_sent("no connection"));
    let error = rig.take_over().await;
    assert!(error.is_unavailable() && !error.is_unconfirmed() && error.retry_after().is_some(), "{error}");
}
