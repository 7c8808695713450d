//! The command `distlock` with a store that grants every lock from its queue, and loses its first replies to renewals.

#![allow(clippy::expect_used, reason = "it says what is wrong with this program")]

use std::future::pending;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock::store::{
    Abilities, Acquire, AcquireReply, Busy, EarlierCommands, Fencing, Grant, LockStore, Release,
    ReleaseReply, Renew, RenewReply, StoreError, StoreEvents, StoredLock, Waiting,
    kit::connection::ConnectionOptions, register,
};

/// The number of renewals without a reply.
const UNANSWERED: u64 = 3;

#[derive(Debug, Default)]
struct Store {
    events: OnceLock<StoreEvents>,
    fence: AtomicU64,
    renewals: AtomicU64,
}

impl LockStore for Store {
    fn abilities(&self) -> Abilities {
        Abilities::default().fencing(Fencing::Blocks).waiting(Waiting::Queued)
    }

    fn describe(&self) -> String {
        "a store that loses replies".to_owned()
    }

    /// If the grant is read before the first reply, the client only asks again.
    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let fence = 1 + self.fence.fetch_add(request.fences.into(), Ordering::SeqCst);
        if let Some(events) = self.events.get() {
            let grant = Grant::new().fence(fence).at_most_old(Duration::ZERO);
            events.granted(&request.key, request.owner.as_str(), grant);
        }
        Ok(AcquireReply::Busy(Busy::ours("dl1:another:1")))
    }

    async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> {
        if self.renewals.fetch_add(1, Ordering::SeqCst) < UNANSWERED {
            return Err(StoreError::unknown("no reply"));
        }
        Ok(RenewReply::Renewed)
    }

    async fn release(&self, _: &Release) -> Result<ReleaseReply, StoreError> {
        Ok(ReleaseReply::Released)
    }

    async fn inspect(&self, _: &str) -> Result<Option<StoredLock>, StoreError> {
        Ok(None)
    }

    async fn force_release(&self, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn run(&self, events: StoreEvents) {
        self.events.get_or_init(|| events).up(EarlierCommands::Ended);
        pending().await
    }
}

fn open(_: &str, _: &ConnectionOptions) -> Result<Store, String> {
    Ok(Store::default())
}

fn main() -> ExitCode {
    register(&["unanswered"], open).expect("`unanswered` is no other store's");
    distlock_cli::main()
}
