//! The trait of a store.

use std::fmt;
use std::future::{Future, pending, ready};

use crate::{
    Abilities, Acquire, AcquireReply, EarlierCommands, Finding, List, Publish, Release, ReleaseReply, Renew,
    RenewReply, Replace, ReplaceReply, StoreError, StoreEvents, StoredLock, StoredPage,
};

/// Acquires, renews and releases a key for an owner and a ttl.
///
/// Write its methods as `async fn`. Their futures must be `Send`.
///
/// # What the store promises
/// The manager relies on each of these rules. `distlock::testing::contract` has tests for each line.
///
/// | rule | consequence if it is broken |
/// |---|---|
/// | The operations on one key are linearizable: for all processes, each takes place at one moment between call and reply. | two holders |
/// | A ttl is never counted from before the call. (Later is allowed: it only excludes others longer.) | two holders: the lease ends while its holder relies on it |
/// | The store's clock runs at most 1 % faster than the process's, and is not set forward. | two holders, until the fencing token is checked |
/// | `acquire` is idempotent by owner. If the holder repeats it, it replies [`AlreadyHeld`](AcquireReply::AlreadyHeld), extends the lease to at least the ttl, and never shortens it. It never replies [`Busy`](AcquireReply::Busy) with the owner itself. | a process waits for itself; the request fails as unavailable |
/// | `replace` moves the lock from the named holder to the owner in one step, and only if that holder has it. It is idempotent by owner. After `hand_over`, the lease lasts for its ttl without its process. | another process gets a lock that is being handed over; or two holders |
/// | The reply is [`Acquired`](AcquireReply::Acquired) only if the owner did not hold the lock just before. | if a lease was lost and acquired again, its former holder does not notice the loss |
/// | `renew` never creates a lock, and never shortens a lease. | a lock that was released by force comes back: two holders |
/// | `release` frees the key only if the owner holds it, and removes the owner's place in the queue. | another holder's lock is freed: two holders; or a place without a waiter is granted, and delays others by its claim |
/// | An owner that gets the lock, by `acquire` or by a grant, leaves the queue. | the lock is granted to an owner that has released it, and others wait until its claim is over |
/// | The owner holds a granted lock from the grant on: its `acquire` replies [`AlreadyHeld`](AcquireReply::AlreadyHeld), its `release` frees the lock, and the lock expires with the claim if the owner does not ask. | the owner waits for itself; or others wait for a dead process |
/// | If the store declares that waiters are [`Notified`](crate::Waiting::Notified) or [`Queued`](crate::Waiting::Queued), a release is reported, or grants the lock, within [`NOTIFIED_WITHIN`](crate::NOTIFIED_WITHIN). (Single reports may be lost with a connection.) | waiters continue to sleep: a hand-off takes seconds |
/// | A grant is no older than [`Grant::at_most_old`](crate::Grant::at_most_old) says. | two holders |
/// | If the owner of a place in the queue has not asked for [`Queue::entry_ttl`](crate::Queue::entry_ttl), the place is skipped. With [sessions](crate::LeaseRule::Session), a place, and a grant that is not claimed, may last as long as the session instead. | others wait for the claim of a dead process |
/// | The fencing tokens of a key increase with every token, even after an expiry or a restart. | a late write of a former holder is accepted |
/// | An operation whose future has ended with [`StoreError::unknown`], or was given up after 5 s, is executed within 5 s ([`LATE_COMMANDS`](crate::LATE_COMMANDS)), or never. So limit the time of statements and of the client's retries. With sessions, it may also be executed later, until the replacement of its connection is up, because releases are repeated then. | an unwanted lock stays until its ttl is over; with sessions, until the process ends |
/// | Nothing is repeated after its future has ended. | an unwanted lock stays until its ttl is over; with sessions, until the process ends |
///
/// # A store without a clock
/// If a store cannot end leases, do not compare a time in it with a client's wall clock. Let each write change a
/// version. A process that finds another holder's item counts its ttl by its own monotonic clock, from the moment when
/// it first saw this version. After the ttl, it takes the item on condition that the version has not changed. A version
/// never returns, even after the item was deleted. [`ObservedLeases`](crate::ObservedLeases) counts these ttls.
///
/// # What the manager promises
/// - The operations of this process on one key follow each other, in the order of the manager's decisions, so an
///   `acquire` comes before the `release` that undoes it. The next operation is called after the future of the last one
///   has ended. After 10 s, the manager no longer waits for an operation. Operations on different keys run at the same
///   time.
/// - Futures are polled with the tokio runtime of the manager's own thread entered (current-thread, with I/O and time).
///   They may spawn, sleep and use sockets, and must not block. At first, the task that requests the lock polls them,
///   on its own thread. After 20 ms, or if that task is dropped, the manager's thread polls them. So each poll may be
///   on another thread. If a runtime is blocked, the operation keeps its own mutexes locked for that time.
///   [`LockStore::run`] and [`close`](LockStore::close) are polled on the manager's thread. Futures are not dropped
///   before they are ready, unless the manager ends. After 5 s, a future counts as [`StoreError::unknown`]. A later
///   result is still processed, and undone if no request wants it. A panic counts as `unknown`, too.
/// - The store never gets a request that its [`Abilities`] exclude.
/// - At most 4 096 operations of a process wait for their turn on one key. Further operations fail as not sent.
/// - Keys include the manager's prefix, and events must include it, too.
/// - [`close`](LockStore::close) is called once, when no lock is held or requested.
///
/// # Example
/// A complete store: exclusive locks in a map of this process. A real store keeps the map on a server.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::{Mutex, MutexGuard};
/// use std::time::Instant;
///
/// use distlock::store::*;
/// use distlock::{LockKind, LockManager};
///
/// /// Who holds what, and until when.
/// type Leases = HashMap<String, (Owner, Instant)>;
///
/// #[derive(Debug, Default)]
/// struct MapStore(Mutex<Leases>);
///
/// impl MapStore {
///     /// The leases that have not ended.
///     fn leases(&self) -> MutexGuard<'_, Leases> {
///         let mut leases = self.0.lock().expect("nothing panics inside");
///         let now = Instant::now();
///         leases.retain(|_, (_, end)| *end > now);
///         leases
///     }
/// }
///
/// impl LockStore for MapStore {
///     fn describe(&self) -> String {
///         "a map".to_owned()
///     }
///
///     async fn acquire(&self, Acquire { key, owner, ttl, .. }: &Acquire) -> Result<AcquireReply, StoreError> {
///         let (now, mut leases) = (Instant::now(), self.leases());
///         Ok(match leases.get_mut(&**key) {
///             None => {
///                 leases.insert(key.to_string(), (owner.clone(), now + *ttl));
///                 AcquireReply::Acquired { fence: None }
///             }
///             // Repeated, because the reply was lost: the reply must not say that the lock is busy.
///             Some((holder, end)) if holder == owner => {
///                 *end = (*end).max(now + *ttl);
///                 AcquireReply::AlreadyHeld { fence: None }
///             }
///             Some((holder, end)) => AcquireReply::Busy(Busy::ours(holder.as_str()).remaining(*end - now)),
///         })
///     }
///
///     async fn renew(&self, Renew { key, owner, ttl, .. }: &Renew) -> Result<RenewReply, StoreError> {
///         Ok(match self.leases().get_mut(&**key) {
///             Some((holder, end)) if holder == owner => {
///                 *end = (*end).max(Instant::now() + *ttl);
///                 RenewReply::Renewed
///             }
///             _ => RenewReply::NotHeld,
///         })
///     }
///
///     async fn release(&self, Release { key, owner, .. }: &Release) -> Result<ReleaseReply, StoreError> {
///         let mut leases = self.leases();
///         Ok(match leases.get(&**key) {
///             Some((holder, _)) if holder == owner => {
///                 leases.remove(&**key);
///                 ReleaseReply::Released
///             }
///             _ => ReleaseReply::NotHeld,
///         })
///     }
///
///     async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
///         let leases = self.leases();
///         Ok(leases.get(key).map(|(holder, end)| {
///             let left = end.saturating_duration_since(Instant::now());
///             StoredLock::new(LockKind::Exclusive).holder(holder.as_str(), Some(left))
///         }))
///     }
///
///     async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
///         Ok(self.leases().remove(key).is_some())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// let manager = LockManager::builder().store(MapStore::default()).connect().await?;
/// let guard = manager.lock("order:42").acquire().await?;
/// assert!(manager.lock("order:42").try_acquire().await?.is_none());
/// guard.release().await
/// # }
/// ```
#[doc(alias("backend", "provider", "driver"))]
pub trait LockStore: fmt::Debug + Send + Sync + 'static {
    /// The abilities of the store. Called once, when the manager is created.
    ///
    /// ```
    /// # use distlock::store::*;
    /// # struct MyStore;
    /// # impl MyStore {
    /// fn abilities(&self) -> Abilities {
    ///     Abilities::default().fencing(Fencing::OneByOne).min_hold()
    /// }
    /// # }
    /// ```
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// The kind and address of the store, without credentials, for errors and logs.
    ///
    /// ```
    /// # struct MyStore { host: String }
    /// # impl MyStore {
    /// fn describe(&self) -> String {
    ///     format!("my store at {}", self.host)
    /// }
    /// # }
    /// ```
    fn describe(&self) -> String;

    /// Acquires the lock, or extends the lease if the owner already holds it. If another holder excludes the owner, and
    /// [`Acquire::queue`] is set, puts the owner into the queue, or keeps its place alive.
    fn acquire(&self, request: &Acquire) -> impl Future<Output = Result<AcquireReply, StoreError>> + Send;

    /// Extends the owner's lease to the ttl from now, unless it lasts longer.
    /// With [sessions](crate::LeaseRule::Session), it only reports whether the owner holds the lock.
    fn renew(&self, request: &Renew) -> impl Future<Output = Result<RenewReply, StoreError>> + Send;

    /// Ends the owner's lease or its place in the queue. If the owner held the lock, the next waiter gets it, or it is
    /// free.
    ///
    /// The owner may belong to another process or another program, because `force_release_from` releases the lock of
    /// the holder that [`inspect`](Self::inspect) has shown, and of no other. So decide by the store's data about the
    /// owner, not by the memory of this process.
    fn release(&self, request: &Release) -> impl Future<Output = Result<ReleaseReply, StoreError>> + Send;

    /// Returns the holders of the key, with the text that a holder has [published](Self::publish). `None`: the key is
    /// free.
    fn inspect(&self, key: &str) -> impl Future<Output = Result<Option<StoredLock>, StoreError>> + Send;

    /// Stores a text next to a lock that the owner holds, for [`inspect`](Self::inspect). For example, a leader
    /// publishes its address. The text belongs to this lease of this owner, and is never shown for another one
    /// ([`StoredLock::published`]). A new text replaces it. Called only if [`Abilities::publishes`] is declared, for
    /// exclusive locks. If the owner no longer holds the lock, the text need not be stored.
    fn publish(&self, request: &Publish) -> impl Future<Output = Result<(), StoreError>> + Send {
        let error = StoreError::refused(format!("publishing under `{}`: not implemented", request.key));
        ready(Err(error))
    }

    /// The last renewal of a lock that is handed over. From now on its lease lasts for the ttl without this process,
    /// which may end. Then [`replace`](Self::replace) moves the lock to an owner of another process, or of the same
    /// one. If it fails, or if its future is dropped, the manager releases the lock. After it, the manager never renews
    /// the lease. Called only if [`Abilities::replaces`] is declared, for exclusive locks.
    ///
    /// By default it renews the lease. So write it only if a lease ends with
    /// the [session](crate::LeaseRule::Session) of its process.
    ///
    /// ```
    /// # use distlock::store::*;
    /// # struct MyStore;
    /// # impl MyStore {
    /// # async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> { Ok(RenewReply::NotHeld) }
    /// async fn hand_over(&self, request: &Renew) -> Result<RenewReply, StoreError> {
    ///     self.renew(request).await // each lease has an end of its own
    /// }
    /// # }
    /// ```
    fn hand_over(&self, request: &Renew) -> impl Future<Output = Result<RenewReply, StoreError>> + Send {
        self.renew(request)
    }

    /// Removes the text that the owner has [published](Self::publish), whether or not it still holds the lock. The text
    /// of another owner stays. [`Publish::value`] is empty. By default, it publishes the empty text, so a store that
    /// keeps a row for each text should remove the row instead.
    fn unpublish(&self, request: &Publish) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.publish(request)
    }

    /// Moves an exclusive lock from [`Replace::holder`] to the owner in one step, so that the key is never free in
    /// between. The new lease lasts for the ttl from now, and waiters keep their places behind it. If another owner
    /// holds the lock, or if it is free, nothing changes. Called only if [`Abilities::replaces`] is declared.
    ///
    /// If it is [refused](StoreError::refused), it must not have changed the holder: the ticket can then be used again.
    /// The manager may repeat it, like [`acquire`](Self::acquire). It never waits.
    ///
    /// ```
    /// # use std::collections::HashMap;
    /// # use distlock::store::*;
    /// # struct MyStore(std::sync::Mutex<HashMap<String, Owner>>);
    /// # impl MyStore {
    /// async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
    ///     let mut holders = self.0.lock().expect("nothing panics inside");
    ///     Ok(match holders.get_mut(&*request.key) {
    ///         Some(holder) if *holder == request.holder => {
    ///             *holder = request.owner.clone(); // and its lease lasts for `request.ttl`
    ///             ReplaceReply::Replaced { fence: None }
    ///         }
    ///         Some(holder) if *holder == request.owner => ReplaceReply::AlreadyHeld { fence: None },
    ///         _ => ReplaceReply::NotHeld,
    ///     })
    /// }
    /// # }
    /// ```
    fn replace(&self, request: &Replace) -> impl Future<Output = Result<ReplaceReply, StoreError>> + Send {
        let error =
            StoreError::refused(format!("replacing the holder of `{}`: not implemented", request.key));
        ready(Err(error))
    }

    /// Lists locks that are held or waited for, page by page. Called only if [`Abilities::lists`] is declared, for
    /// `LockManager::list`. A lock that is held during the whole listing must be on one of its pages. Other locks may
    /// be on a page or not.
    ///
    /// ```
    /// # use distlock::LockKind;
    /// # use distlock::store::*;
    /// # struct MyStore(std::sync::Mutex<std::collections::BTreeMap<String, String>>);
    /// # impl MyStore {
    /// async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
    ///     let locks = self.0.lock().expect("nothing panics inside"); // owners by key, in the order of the keys
    ///     let is_behind = |key: &String| request.after.as_ref().is_none_or(|after| key > after);
    ///     let found = locks.iter().filter(|(key, _)| key.starts_with(&request.beginning) && is_behind(key));
    ///     let page = found.take(request.most).fold(StoredPage::new(), |page, (key, owner)| {
    ///         page.lock(key, StoredLock::new(LockKind::Exclusive).holder(owner, None))
    ///     });
    ///     Ok(page.and_more()) // the page after the last one has no locks
    /// }
    /// # }
    /// ```
    fn list(&self, request: &List) -> impl Future<Output = Result<StoredPage, StoreError>> + Send {
        let beginning = request.beginning.clone();
        async move { Err(StoreError::refused(format!("listing the locks below `{beginning}`: not implemented"))) }
    }

    /// Examines the store for risks and causes of slowness, for `LockManager::diagnose`. Returns a finding for each
    /// examined subject, even if it is [`Fine`](crate::Severity::Fine). [`Finding::about`] names the subject, and the
    /// manager puts [`describe`](Self::describe) before it. No findings: nothing was examined.
    ///
    /// It changes nothing, and blocks no other client. If the store's user has no permission to see a subject, the
    /// subject is left out, or a finding says so.
    ///
    /// # Errors
    /// The store is unreachable.
    ///
    /// ```
    /// # use distlock::store::*;
    /// # struct MyStore;
    /// # impl MyStore {
    /// #     async fn setting(&self, _: &str) -> Result<String, StoreError> { Ok("on".into()) }
    /// async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
    ///     let flushes = self.setting("flush").await?;
    ///     Ok(vec![match &*flushes {
    ///         "on" => Finding::new(Severity::Fine, "flush", "every write reaches the disk"),
    ///         _ => Finding::new(Severity::Fault, "flush", "a crash of the machine may lose locks")
    ///             .remedy("set flush = on"),
    ///     }])
    /// }
    /// # }
    /// ```
    fn diagnose(&self) -> impl Future<Output = Result<Vec<Finding>, StoreError>> + Send {
        ready(Ok(Vec::new()))
    }

    /// Frees the key, whichever owner holds it, and grants it to the next waiter, or leaves it free. Returns whether it
    /// was held.
    fn force_release(&self, key: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Acquires several unfenced locks by one command, in order, up to and including the first that is not acquired.
    /// Returns one reply for each key that was tried. Called with at most [`Abilities::acquires_together`] keys.
    ///
    /// An error applies to all of them. Some may have been acquired.
    ///
    /// ```
    /// # use distlock::store::*;
    /// # struct MyStore;
    /// # impl MyStore {
    /// # async fn acquire(&self, _: &Acquire) -> Result<AcquireReply, StoreError> {
    /// #     Ok(AcquireReply::Acquired { fence: None })
    /// # }
    /// async fn acquire_all(&self, requests: &[Acquire]) -> Result<Vec<AcquireReply>, StoreError> {
    ///     let mut replies = Vec::new();
    ///     for request in requests {
    ///         replies.push(self.acquire(request).await?); // a real one sends all of them by one command
    ///         if matches!(replies.last(), Some(AcquireReply::Busy(_))) {
    ///             break;
    ///         }
    ///     }
    ///     Ok(replies)
    /// }
    /// # }
    /// ```
    fn acquire_all(
        &self,
        requests: &[Acquire],
    ) -> impl Future<Output = Result<Vec<AcquireReply>, StoreError>> + Send {
        let count = requests.len();
        async move { Err(StoreError::refused(format!("{count} keys by one command: not implemented"))) }
    }

    /// Renews several leases, of different keys, by one command. Returns one reply for each, in order. Called with at
    /// most [`Abilities::renews_together`] leases.
    ///
    /// An error applies to all of them. After a [`StoreError::later`], the manager renews them one by one, because the
    /// cause may be the row of one of them. So report it soon.
    ///
    /// ```
    /// # use distlock::store::*;
    /// # struct MyStore;
    /// # impl MyStore {
    /// # async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> { Ok(RenewReply::Renewed) }
    /// async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
    ///     let mut replies = Vec::new();
    ///     for request in requests {
    ///         replies.push(self.renew(request).await?); // a real one sends all of them by one command
    ///     }
    ///     Ok(replies)
    /// }
    /// # }
    /// ```
    fn renew_all(
        &self,
        requests: &[Renew],
    ) -> impl Future<Output = Result<Vec<RenewReply>, StoreError>> + Send {
        let count = requests.len();
        async move { Err(StoreError::refused(format!("{count} renewals by one command: not implemented"))) }
    }

    /// Maintains the connection, the session and the notifications, and reports to `events`. It must never return: if
    /// it returns, the manager fails, and every lock is lost. It is polled and dropped like the other futures. After a
    /// panic, it is called again.
    ///
    /// A store that connects with every operation, and has nothing to report, does not need it. The default reports
    /// that the store is [up](StoreEvents::up).
    ///
    /// ```
    /// # use distlock::store::*;
    /// # struct MyStore;
    /// # struct Connection;
    /// # impl Connection { async fn closed(&self) -> String { "closed by the server".into() } }
    /// # impl MyStore {
    /// #     async fn connect(&self) -> Connection { Connection }
    /// async fn run(&self, events: StoreEvents) {
    ///     events.wanted().await; // until the first lock is asked for, or `connect` is called
    ///     loop {
    ///         let connection = self.connect().await; // tries until it succeeds
    ///         events.up(EarlierCommands::Ended);
    ///         let cause = connection.closed().await;
    ///         events.down(StoreError::not_sent(cause));
    ///     }
    /// }
    /// # }
    /// ```
    fn run(&self, events: StoreEvents) -> impl Future<Output = ()> + Send {
        async move {
            events.up(EarlierCommands::Ended);
            pending().await
        }
    }

    /// Called when the manager has ended, because it was shut down, or because its last handle was dropped. It is
    /// called at most once, when the manager holds no lock. Every release was answered, unless its reply has been
    /// missing for a second: its future may still be polled during `close` and after it. No lock is acquired after
    /// that. Remove remaining data from the server here, for example a session that others would wait for.
    ///
    /// It is awaited for as long as the end of the manager may take: a second after the grace period of a shutdown. If
    /// the process ends first, or if a task still holds the guard of a lost lock, it may not be called, or may not
    /// finish. [`run`](Self::run) continues to run during `close`. [`inspect`](Self::inspect) and
    /// [`force_release`](Self::force_release) may still be called after that, and may fail.
    ///
    /// ```
    /// # struct Session;
    /// # impl Session { async fn end(&self) {} }
    /// # struct MyStore { session: Session }
    /// # impl MyStore {
    /// async fn close(&self) {
    ///     self.session.end().await;
    /// }
    /// # }
    /// ```
    fn close(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}
