//! The contract of the stores of `distlock`: what keeps locks, takes and gives them back.
//!
//! A [`LockStore`] takes, keeps and gives back a key by owner and ttl. The crate `distlock` does everything else: it
//! re-exports this contract as `distlock::store`, and a store is given to its builder by `LockManagerBuilder::store`.
//! [`kit`] has what every store with a server needs. A store depends on this crate, and on nothing else of the project.
//!
//! This crate is young: before 1.0 a minor release may change it. Types grow without that where they can.

mod abilities;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
mod clock_offset;
mod details;
mod error;
mod escaped;
mod events;
#[doc(hidden)]
mod failure;
mod fencing_token;
#[doc(hidden)]
pub mod fields;
mod finding;
#[doc(hidden)]
mod gave_up;
pub mod kit;
mod limits;
mod listing;
mod lock_kind;
mod observed_leases;
#[doc(hidden)]
mod owner;
mod reply;
mod request;
mod server_clock;
#[doc(hidden)]
mod time;
#[doc(hidden)]
mod who;

use std::fmt;
use std::future::{Future, pending, ready};

pub use abilities::{Abilities, Ability, Fencing, KeyRules, LeaseRule, Waiting};
pub use details::OwnerDetails;
pub use error::StoreError;
pub use escaped::Escaped;
pub use events::{EarlierCommands, Grant, Heartbeat, Notifications, StoreEvents};
pub use fencing_token::FencingToken;
pub use finding::{Finding, Severity};
pub use limits::{LATE_COMMANDS, LONGEST_VALUE, NOTIFIED_WITHIN};
pub use listing::{List, StoredPage};
pub use lock_kind::LockKind;
pub use observed_leases::ObservedLeases;
pub use reply::{AcquireReply, Busy, KEPT, ReleaseReply, RenewReply, ReplaceReply, StoredLock};
pub use request::{Acquire, Owner, Publish, Queue, Release, Renew, Replace};
pub use server_clock::{Asking, ServerClock};

/// What the crate `distlock` and its own stores need of this one beside the contract. Not for others: it may change
/// with every release.
#[doc(hidden)]
pub mod engine {
    pub use crate::clock_offset::{ClockOffset, Step};
    pub use crate::escaped::Escaping;
    pub use crate::events::Report;
    pub use crate::failure::{Failure, OwnLines, is_told, told};
    pub use crate::fields;
    pub use crate::gave_up::{GaveUp, show_cause};
    pub use crate::owner::{
        LIMITED_MARKER, MARK, Token, client_of, parse_owner, parse_token, shared_token_text, token_text,
    };
    pub use crate::reply::{HolderRelease, SOMEBODY};
    pub use crate::time::{ServerTime, Time, drift};
    pub use crate::who::{LONGEST_NAME, Met, Who};
}

/// Takes, keeps and gives back a key by owner and ttl.
///
/// Write its methods as `async fn`; their futures must be `Send`.
///
/// # What the store promises
/// The manager relies on each of these rules. `distlock::testing::contract` has tests for each line.
///
/// | rule | what happens if it is broken |
/// |---|---|
/// | The operations on one key are linearizable: each takes place at one moment between call and answer, for all processes. | two holders |
/// | A ttl is never counted from before the call. (Later is allowed: it only keeps others out longer.) | two holders: the lease ends while its holder relies on it |
/// | The store's clock runs at most 1 % faster than the process's, and is not set forward. | two holders, until the fencing token is checked |
/// | `acquire` is idempotent by owner: repeated by who holds the lock, it answers [`AlreadyHeld`](AcquireReply::AlreadyHeld), makes the lease last for the ttl at least and never shortens it, and never answers [`Busy`](AcquireReply::Busy) naming the owner itself. | a process waits for itself; the request ends as unavailable |
/// | `replace` gives the lock from its holder to the owner at one moment, and only if it is the holder's; it is idempotent by owner. | somebody else gets a lock that is being handed over; or two holders |
/// | [`Acquired`](AcquireReply::Acquired) is answered only if the lock was not the owner's just before. | after a lease was lost and taken anew, its former holder is not told |
/// | `renew` never creates a lock, and never shortens a lease. | a lock that was taken away comes back: two holders |
/// | `release` frees the key only if it is the owner's, and removes the owner's place in the queue. | somebody else's lock is freed: two holders; a place of nobody is granted, and delays others by its claim |
/// | An owner that gets the lock, whether by `acquire` or by a grant, leaves the queue. | the lock is granted to an owner that has released it; others wait until its claim is over |
/// | A granted lock is its owner's from the grant on: `acquire` answers [`AlreadyHeld`](AcquireReply::AlreadyHeld) to it, `release` frees it, and it ends with the claim if the owner does not ask. | the owner asks for what it has, and waits for itself; or others wait for a process that has died |
/// | A release is reported, or grants the lock, within [`NOTIFIED_WITHIN`] where the store declares that waiters are [`Notified`](Waiting::Notified) or [`Queued`](Waiting::Queued). (Single reports may be lost with a connection.) | waiters sleep on: a hand-off takes seconds |
/// | A grant is no older than [`Grant::at_most_old`] says. | two holders |
/// | A place in the queue whose owner has not asked for [`Queue::entry_ttl`] is passed over; with [sessions](LeaseRule::Session) a place, and a grant that is not claimed, may last as long as the session instead. | others wait for the claim of a process that has died |
/// | Fencing tokens increase with every one that is handed out for a key, over expiries and restarts. | a late write of a former holder is taken for a new one |
/// | An operation whose future has ended with [`StoreError::unknown`], or was given up after 5 s, is carried out within 5 s ([`LATE_COMMANDS`]), or never: bound statements and retries of the client. With sessions it may also be carried out later, until the connection that replaces its own is up: releases are repeated then. | a lock that nobody wants stays until its ttl is over; with sessions, until the process ends |
/// | Nothing is repeated after its future has ended. | the same |
///
/// # A store without a clock
/// A store that cannot end a lease by itself must not compare a time in it with a client's wall clock. Let each write
/// change a version, and let who finds somebody else's item count its ttl by its own monotonic clock from when it saw
/// that version first, and take the item on condition that the version is the same: [`ObservedLeases`] counts.
///
/// # What the manager promises
/// - The operations of this process on one key follow each other: the next one is called when the future of the
///   last one has ended, in the order in which the manager decided on them, an `acquire` before the `release` that
///   undoes it. An operation that has not ended after 10 s is not waited for any longer. Operations on different
///   keys run at the same time.
/// - Futures are polled with the tokio runtime of the manager's own thread entered (current-thread, with I/O and time),
///   so they may spawn, sleep and use sockets, and must not block. The task that asks for the lock polls them at first,
///   on its own thread; after 20 ms, or if that task is dropped, the manager's thread does. So each poll may be on
///   another thread, and a runtime that is blocked keeps for that moment what the operation has locked.
///   [`LockStore::run`] and [`close`](LockStore::close) are polled on the manager's thread. Futures are not dropped
///   before they are ready, unless the manager ends. One that takes longer than 5 s counts as [`StoreError::unknown`]
///   from then on; what it still says is taken into account, and undone if nobody wants it. A panic counts as
///   `unknown`, too.
/// - Requests that the [`Abilities`] rule out are never made.
/// - At most 4 096 operations of a process wait for their turn on one key; more fail as not sent.
/// - Keys come with the manager's prefix, and events name them with it.
/// - [`close`](LockStore::close) is called once, when nothing is held or asked for any more.
///
/// # Example
/// A whole store: exclusive locks in a map of this process. A real one keeps the map on a server.
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
///             // Repeated, because the reply was lost: it must not be told that it is in its own way.
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
    /// What it can do. Asked once, when the manager is made.
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

    /// What this is and where, without credentials: for errors and logs.
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

    /// Takes the lock if there is room, or extends the lease of the owner who has it. If somebody else is in the
    /// way and [`Acquire::queue`] is given, puts the owner into the queue, or keeps its place alive.
    fn acquire(&self, request: &Acquire) -> impl Future<Output = Result<AcquireReply, StoreError>> + Send;

    /// Makes the owner's lease last for the ttl from now, unless it lasts longer. With
    /// [sessions](LeaseRule::Session) it only says whether the lock is the owner's.
    fn renew(&self, request: &Renew) -> impl Future<Output = Result<RenewReply, StoreError>> + Send;

    /// Ends the owner's lease or its place in the queue, whichever there is, and lets the next in.
    ///
    /// The owner may be another process's, or be called in any way: so
    /// `force_release_from` takes a lock from the holder that
    /// [`inspect`](Self::inspect) has shown, and from no other. So what decides is what the store knows of the owner,
    /// not what this process remembers of it.
    fn release(&self, request: &Release) -> impl Future<Output = Result<ReleaseReply, StoreError>> + Send;

    /// Reads who holds the key. `None`: it is free. What the holder has [published](Self::publish) is part of it.
    fn inspect(&self, key: &str) -> impl Future<Output = Result<Option<StoredLock>, StoreError>> + Send;

    /// Keeps a text beside a lock that the owner holds, for those who [`inspect`](Self::inspect) it: the address of a
    /// leader, for example. It belongs to this lease of this owner, and is never shown of another one
    /// ([`StoredLock::published`]). Another text replaces it. Called only if [`Abilities::publishes`] says so, for
    /// exclusive locks. If the owner does not hold the lock any more, nothing need be kept.
    fn publish(&self, request: &Publish) -> impl Future<Output = Result<(), StoreError>> + Send {
        let error = StoreError::refused(format!("publishing under `{}`: not implemented", request.key));
        ready(Err(error))
    }

    /// Makes an exclusive lock the owner's that [`Replace::holder`] holds: by one step, so that the key is never free
    /// in between. The new lease lasts for the ttl from now, and waiters keep their places behind it. If anybody else
    /// holds the lock, or nobody, nothing is changed. Called only if [`Abilities::replaces`] says so.
    ///
    /// It may be repeated, like [`acquire`](Self::acquire), and is never asked to wait.
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

    /// Lists locks that are held or waited for, a page at a time. Called only if [`Abilities::lists`] says so, for
    /// `LockManager::list`. A lock that is held throughout a listing stands on one of its
    /// pages; of others, either is right.
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

    /// Looks for what endangers locks in this store, or makes them slow, for `LockManager::diagnose`. Returns a finding
    /// for each subject that was examined, also if it is [`Fine`](Severity::Fine). [`Finding::about`] names the
    /// subject; the manager puts [`describe`](Self::describe) before it. No findings: nothing was examined.
    ///
    /// It changes nothing, and blocks nobody. A subject that the user of the store may not see is left out, or a
    /// finding says so.
    ///
    /// # Errors
    /// The store cannot be asked at all.
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

    /// Frees the key, no matter which owner holds it, and lets the next in. Returns whether it was held.
    fn force_release(&self, key: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Takes several unfenced locks by one command: in order, up to and including the first that is not
    /// acquired. One reply for each that was tried. Called only for as many keys as
    /// [`Abilities::acquires_together`] says.
    ///
    /// An error counts for all of them: some may have been acquired.
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

    /// Renews several leases, of different keys, by one command; one reply for each, in order. Called only for as
    /// many as [`Abilities::renews_together`] says.
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

    /// Looks after the connection, the session and the notifications without end, reporting to `events`. Polled and
    /// dropped like the other futures; after a panic it is called again. If it returns, the manager fails: every
    /// lock is lost.
    ///
    /// A store that connects by itself with every operation, and has nothing to report, does not need it: this
    /// one says that the store is [up](StoreEvents::up).
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

    /// The manager has ended: it was shut down, or its last handle was dropped.
    /// Called at most once, when none of its locks is held and every release was answered or given up; no lock is
    /// acquired afterwards. What is left on the server goes here, as a session that others would wait for.
    ///
    /// Awaited for as long as the end of the manager may take: a second after the grace period of a shutdown. It may
    /// not be called, or not come to its end, if the process ends first, or if somebody holds on to a lock that was
    /// taken away from him. [`run`](Self::run) goes on meanwhile. [`inspect`](Self::inspect) and
    /// [`force_release`](Self::force_release) may still be called, and may fail from then on.
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
