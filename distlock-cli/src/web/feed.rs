//! Lists the locks repeatedly while a page is open, and sends each page its rows.

use std::fmt;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use distlock::{LockError, LockManager};
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::guard::Access;
use super::look::{History, ListedLocks, ListingError, Snapshot};
use super::view::Loss;
use crate::as_json::millis;
use crate::exit::Exit;
use crate::take::{NotTaken, Taken, take_from};

/// The pause between two looks. It is so short that events are visible within a second.
const PAUSE: Duration = Duration::from_millis(500);
/// The pause as a multiple of the time of a listing.
const RESTS: u32 = 9;
/// At most this many pages may be open.
const MOST_VIEWERS: usize = 32;
/// At most this many locks are shown.
const MOST_LOCKS: usize = 500;
/// A page that changes its filter reconnects within this time.
const AWAY: Duration = Duration::from_secs(5);

pub(super) struct Feed {
    manager: LockManager,
    pattern: String,
    access: Access,
    store: String,
    /// The last result. `None` before the first look.
    latest: watch::Sender<Option<Arc<Snapshot>>>,
    viewers: Arc<Semaphore>,
    wanted: Notify,
    /// Keys, and the owners from which the page has released them, until a look has noticed it.
    released: Mutex<Vec<(String, String)>>,
}

/// An open page.
pub(super) struct Viewer {
    feed: Arc<Feed>,
    latest: watch::Receiver<Option<Arc<Snapshot>>>,
    /// The page shows the locks whose keys contain this text.
    filter: String,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    pub(super) fn new(manager: LockManager, store: String, pattern: String, access: Access) -> Arc<Self> {
        Arc::new(Feed {
            manager,
            pattern,
            access,
            store,
            latest: watch::Sender::new(None),
            viewers: Arc::new(Semaphore::new(MOST_VIEWERS)),
            wanted: Notify::new(),
            released: Mutex::default(),
        })
    }

    /// `None`: too many pages are open.
    pub(super) fn viewer(self: &Arc<Self>, filter: String) -> Option<Viewer> {
        let place = self.viewers.clone().try_acquire_owned().ok()?;
        let mut latest = self.latest.subscribe();
        latest.mark_changed();
        self.wanted.notify_one();
        Some(Viewer { feed: self.clone(), latest, filter, _place: place })
    }

    /// Lists the locks while a page is open. Never returns.
    pub(super) async fn run(&self) {
        let mut memory = History::default();
        loop {
            if self.latest.receiver_count() == 0
                && tokio::time::timeout(AWAY, self.wanted.notified()).await.is_err()
            {
                // No page is open, so no page sees the events until the next one is opened.
                memory.forget_holders();
                self.latest.send_replace(None);
                self.wanted.notified().await;
            }
            let began = Instant::now();
            let found =
                memory.look(&self.manager, &self.pattern, |key, owner| self.take_released(key, owner)).await;
            // After a long look, the pause is long, too, so the store is idle most of the time. A look that failed was
            // no work for the store.
            let rest = if found.is_ok() { began.elapsed() * RESTS } else { PAUSE };
            self.publish(began, found, &memory);
            tokio::time::sleep(rest.max(PAUSE)).await;
        }
    }

    /// After an error, the pages keep the last look.
    fn publish(&self, began: Instant, found: Result<ListedLocks, LockError>, memory: &History) {
        let before = self.latest.borrow().clone().unwrap_or_default();
        let (found, trouble) = match found {
            Ok(found) => (Some(Arc::new(found)), None),
            Err(error) => {
                let since = before.trouble.as_ref().map_or(began, |trouble| trouble.since);
                (before.found.clone(), Some(ListingError { since, error }))
            }
        };
        let losses = memory.losses.iter().cloned().collect();
        self.latest.send_replace(Some(Arc::new(Snapshot { found, trouble, losses, lost: memory.lost })));
    }

    /// Releases a lock by force, but only the leases of the holders that the page shows.
    ///
    /// If the future is dropped because the client has disconnected, the release continues, so that no note about a
    /// release stays that was not made.
    pub(super) async fn release(
        self: &Arc<Self>,
        key: String,
        mut owners: Vec<String>,
    ) -> Result<Taken, NotTaken> {
        let shown = self.shown(&key);
        owners.retain(|owner| shown.contains(owner));
        if owners.is_empty() {
            return Ok(shown.into_iter().next().map_or(Taken::NotHeld, Taken::HeldByAnother));
        }
        let feed = self.clone();
        let released = tokio::spawn(async move { feed.release_shown(&key, &owners).await });
        // It fails only if this process ends.
        released.await.unwrap_or_else(|_| Err(LockError::Closed.into()))
    }

    async fn release_shown(&self, key: &str, owners: &[String]) -> Result<Taken, NotTaken> {
        let (mut taken, mut otherwise) = (Vec::new(), Taken::NotHeld);
        for owner in owners {
            // Stored before the release, because a look in progress may notice the release at once.
            self.released().push((key.to_owned(), owner.clone()));
            match take_from(&self.manager, key, slice::from_ref(owner)).await {
                Ok(Taken::From(owners)) => taken.extend(owners),
                other => {
                    self.take_released(key, owner);
                    otherwise = match other {
                        Ok(other) => other,
                        Err(NotTaken { error, .. }) => return Err(NotTaken { error, taken }),
                    };
                }
            }
        }
        Ok(if taken.is_empty() { otherwise } else { Taken::From(taken) })
    }

    /// The owners of a lock in the last look. A client cannot release locks that the page does not show.
    fn shown(&self, key: &str) -> Vec<String> {
        let latest = self.latest.borrow();
        let found = latest.as_ref().and_then(|snapshot| snapshot.found.as_ref());
        let row = found.and_then(|found| found.rows.iter().find(|row| row.key == key));
        row.into_iter().flat_map(|row| &row.holders).map(|holder| holder.one.token.clone()).collect()
    }

    fn released(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the page has released the lock. Returns `true` only once.
    fn take_released(&self, key: &str, owner: &str) -> bool {
        let mut released = self.released();
        let found = released.iter().position(|(one, from)| one == key && from == owner);
        found.map(|place| released.swap_remove(place)).is_some()
    }

    /// The data for a page with this filter.
    fn text(&self, snapshot: &Snapshot, filter: &str) -> String {
        let losses: Vec<Value> = snapshot.losses.iter().map(Loss::json).collect();
        let trouble = snapshot.trouble.as_ref().map(|ListingError { since, error }| {
            json!({
                "since": millis(Some(since.elapsed())),
                "unreachable": Exit::of(error) == Exit::Unavailable,
                "error": error.to_string(),
            })
        });
        let nothing = ListedLocks::new();
        let found = snapshot.found.as_deref().unwrap_or(&nothing);
        let (mut rows, mut more) = (Vec::new(), 0_u64);
        for row in found.rows.iter().filter(|row| row.key.contains(filter)) {
            if rows.len() < MOST_LOCKS { rows.push(row.json()) } else { more += 1 }
        }
        json!({
            "store": self.store,
            "pattern": self.pattern,
            "writable": self.access == Access::Release,
            "filter": filter,
            "looked": millis(snapshot.found.as_ref().map(|found| found.at.elapsed())),
            "trouble": trouble,
            "locks": rows,
            "more": more,
            "complete": found.is_complete(),
            "held": found.held,
            "awaited": found.awaited,
            "waiting": found.waiting,
            "silent": found.silent,
            "oldest": millis(found.oldest),
            "lost": snapshot.lost,
            "busy_per_second": found.rates.map(|rates| rates.busy),
            "lost_per_second": found.rates.map(|rates| rates.lost),
            "losses": losses,
            "notes": found.notes(),
        })
        .to_string()
    }
}

impl Viewer {
    /// The next data: first the present state, then each change. `None`: the feed has ended.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            self.latest.changed().await.ok()?;
            let latest = self.latest.borrow_and_update().clone();
            if let Some(snapshot) = latest {
                return Some(self.feed.text(&snapshot, &self.filter));
            }
        }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("manager", &self.manager).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;

    use distlock::store::{
        Acquire, AcquireReply, LockStore, Release, ReleaseReply, Renew, RenewReply, StoreError, StoredLock,
    };

    use super::*;

    /// A feed whose last look has found the lock `order:1` of this owner, and not `payment:1`.
    async fn feed(manager: &LockManager, owners: &mut Vec<String>) -> Arc<Feed> {
        let held = manager.lock("order:1").acquire().await.expect("it is free");
        owners.push(held.owner());
        let feed = Feed::new(manager.clone(), "memory:".to_owned(), "order:*".to_owned(), Access::Release);
        let mut memory = History::default();
        let found = memory.look(manager, &feed.pattern, |_, _| false).await;
        feed.publish(Instant::now(), found, &memory);
        held.release().await.expect("it is held");
        feed
    }

    #[tokio::test]
    async fn only_holders_that_the_page_shows_lose_their_locks() {
        let (manager, mut owners) = (LockManager::in_memory(), Vec::new());
        let payment = manager.lock("payment:1").acquire().await.unwrap();
        let feed = feed(&manager, &mut owners).await;
        let next = manager.lock("order:1").acquire().await.unwrap();
        let hidden = feed.release("payment:1".to_owned(), vec![payment.owner()]).await.unwrap();
        assert_eq!(hidden, Taken::NotHeld);
        let other = feed.release("order:1".to_owned(), vec![next.owner()]).await.unwrap();
        assert_eq!(other, Taken::HeldByAnother(owners.remove(0)));
        assert!(payment.is_held() && next.is_held());
    }

    /// Releases once.
    #[derive(Debug, Default)]
    struct FailsLater(AtomicBool);

    impl LockStore for FailsLater {
        fn describe(&self) -> String {
            "a store that fails".to_owned()
        }

        async fn acquire(&self, _request: &Acquire) -> Result<AcquireReply, StoreError> {
            Ok(AcquireReply::Acquired { fence: None })
        }

        async fn renew(&self, _request: &Renew) -> Result<RenewReply, StoreError> {
            Ok(RenewReply::Renewed)
        }

        async fn release(&self, _request: &Release) -> Result<ReleaseReply, StoreError> {
            if self.0.swap(true, Ordering::SeqCst) {
                return Err(StoreError::unknown("no reply"));
            }
            Ok(ReleaseReply::Released)
        }

        async fn inspect(&self, _key: &str) -> Result<Option<StoredLock>, StoreError> {
            Ok(None)
        }

        async fn force_release(&self, _key: &str) -> Result<bool, StoreError> {
            Ok(false)
        }
    }

    #[tokio::test]
    async fn an_error_for_one_holder_leaves_the_notes_of_the_others() {
        let manager = LockManager::builder().store(FailsLater::default()).connect().await.unwrap();
        let feed = Feed::new(manager, "a store".to_owned(), "*".to_owned(), Access::Release);
        let owners = ["one", "two"].map(str::to_owned);
        let failed = feed.release_shown("k", &owners).await.unwrap_err();
        assert!(failed.error.is_unavailable());
        assert!(failed.to_string().ends_with("; it was already taken from one"), "{failed}");
        assert_eq!(*feed.released(), [("k".to_owned(), "one".to_owned())]);
    }

    #[tokio::test]
    async fn an_error_for_one_holder_says_from_whom_the_lock_was_taken_before() {
        let manager = LockManager::builder().store(FailsLater::default()).connect().await.unwrap();
        let owners = ["dl1:one.0123:4", "two"].map(str::to_owned);
        let failed = take_from(&manager, "k", &owners).await.unwrap_err();
        assert!(failed.to_string().ends_with("; it was already taken from one.0123"), "{failed}");
        let again = take_from(&manager, "k", &owners).await.unwrap_err();
        assert_eq!(again.to_string(), again.error.to_string(), "nothing was taken");
    }

    /// The client disconnects during the release of a lock that its holder has released meanwhile.
    #[tokio::test]
    async fn a_release_whose_client_disconnects_leaves_no_note() {
        let (manager, mut owners) = (LockManager::in_memory(), Vec::new());
        let feed = feed(&manager, &mut owners).await;
        {
            let mut release = pin!(feed.release("order:1".to_owned(), owners));
            let polled = std::future::poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx).is_pending()));
            assert!(polled.await);
        }
        let corrected = async {
            while Arc::strong_count(&feed) > 1 || !feed.released().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(distlock_tests::BOUND, corrected).await.expect("the note is removed");
    }
}
