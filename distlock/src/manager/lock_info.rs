//! Locks as operators see them: holders and waiters, merged from the store's data and this process's own data.

use std::time::Duration;

use crate::protocol::{
    Account, HoldAccount, OwnerDetails, StoredLock, Who, client_of, kind_of, token_text, value_of,
};
use distlock_store::LockKind;

/// A process that holds a lock or waits for one, as far as the store knows it.
///
/// If the process has written no record (because it runs an earlier version, or has no permission), only its id is
/// known.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let guard = manager.lock("order:42").acquire().await?;
/// let lock = manager.inspect("order:42").await?.expect("it is held");
/// let client = lock.holders[0].client.as_ref().expect("one of this library");
/// println!("{:?} on {:?}, process {:?}", client.program, client.host, client.pid);
/// assert_eq!(client.pid, Some(std::process::id()));
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockClient {
    /// The client id in its tokens: the name from [`client_name`](crate::LockManagerBuilder::client_name), and random
    /// characters.
    pub id: String,
    /// The name of the machine, or of the container.
    pub host: Option<String>,
    /// The id of the process on that machine.
    pub pid: Option<u32>,
    /// The file name of the program.
    pub program: Option<String>,
    /// The version of this library in the process.
    pub version: Option<String>,
    /// How many requests of this process have failed as busy since its start, for all keys together.
    pub busy: Option<u64>,
    /// How many locks this process has lost since its start, for all keys together.
    pub lost: Option<u64>,
}

/// One holder of a lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let guard = manager.lock("order:42").label("checkout").acquire().await?;
/// let lock = manager.inspect("order:42").await?.expect("it is held");
/// for holder in &lock.holders {
///     println!("{:?} has held it for {:?}, {:?} are left", holder.label, holder.since, holder.remaining);
/// }
/// assert_eq!(lock.holders[0].token, guard.owner());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The owner token; see [`LockInfo::holder`].
    pub token: String,
    /// The remaining time of the lease, if it is not renewed. `None`: the lease never ends, or the time is unknown.
    pub remaining: Option<Duration>,
    /// The process. `None`: the token is not one of this library's.
    pub client: Option<LockClient>,
    /// The label of its request. For several readers of one process, the label of the reader that has held the lock
    /// longest. For other processes, this field and the next two are known only on Redis, after the lease was renewed.
    pub label: Option<String>,
    /// How long the lock has been held.
    pub since: Option<Duration>,
    /// How many readers of that process share the lease. One for other kinds.
    pub users: Option<u64>,
    /// The text that a leader publishes: see [`Candidate::value`](crate::leader::Candidate::value).
    pub value: Option<String>,
}

/// A process that waits for a lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let guard = manager.lock("order:42").acquire().await?;
/// let next = tokio::spawn(manager.lock("order:42").label("refund").acquire());
/// # while manager.inspect("order:42").await?.is_none_or(|lock| lock.waiters_here == 0) {
/// #     tokio::task::yield_now().await;
/// # }
/// let lock = manager.inspect("order:42").await?.expect("it is held");
/// let first = &lock.waiting[0];
/// println!("{:?} has waited for {:?}", first.label, first.since);
/// assert_eq!((first.label.as_deref(), first.requests), (Some("refund"), Some(1)));
/// # guard.release().await?;
/// # next.await.expect("it does not panic")?.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockWaiter {
    /// Its token in the store's queue. `None`: it is not in a queue.
    pub token: Option<String>,
    /// The process. `None`: the token is not one of this library's.
    pub client: Option<LockClient>,
    /// The label of the request that has waited longest. This field and the next two are known only for this process.
    pub label: Option<String>,
    /// How long that request has waited.
    pub since: Option<Duration>,
    /// How many requests of that process wait.
    pub requests: Option<u64>,
}

/// The holders and the waiters of a lock: see [`LockManager::inspect`](crate::LockManager::inspect).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let guard = manager.lock("exports").max_holders(3).acquire().await?;
/// let lock = manager.inspect("exports").await?.expect("it is held");
/// assert_eq!(lock.kind, distlock::LockKind::Limited { max_holders: 3 });
/// assert_eq!((lock.holders.len(), lock.waiting.len()), (1, 0));
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The key, without the manager's prefix.
    pub key: String,
    /// The key on the server.
    pub full_key: String,
    /// The kind of lock.
    pub kind: LockKind,
    /// The holder's owner token. If there are several holders, the token of the longest lease. Tokens of this library
    /// have the form `dl1:<client>:<number>`. A token that begins with `dl1:hold` means that the lock was released, and
    /// that `min_hold` keeps its key.
    pub holder: String,
    /// All holders, the longest lease first, up to a thousand. Empty if they cannot be read: for a shared or limited
    /// lock of managers with another key prefix, or if the ACL user has no permission.
    pub holders: Vec<LockHolder>,
    /// The remaining time of the longest lease, if it is not renewed. `None`: it never ends (another program has set
    /// the key).
    pub remaining: Option<Duration>,
    /// The number of processes that wait in the queue on the server. (All waiters of one process count as one.)
    pub waiters: u64,
    /// The number of requests of this process that wait.
    pub waiters_here: usize,
    /// The processes that wait, the next one first, up to a thousand. They are the processes in the queue on the
    /// server, if the user may read it, and this process.
    pub waiting: Vec<LockWaiter>,
    /// The ids of holders and waiters that have sent no heartbeat for 15 s. They are stopped, dead or cut off, or run
    /// an earlier version. Only on Redis, where clients send heartbeats.
    pub unanswered: Vec<String>,
}

/// A lock that is held or waited for: see [`LockManager::list`](crate::LockManager::list).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let guard = manager.lock("order:42").acquire().await?;
/// let lock = manager.list("order:*").next().await.expect("one lock")?;
/// assert_eq!((lock.key.as_str(), lock.holders.len()), ("order:42", 1));
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockEntry {
    /// The key, without the manager's prefix.
    pub key: String,
    /// The key on the server.
    pub full_key: String,
    /// The kind of lock that is held or, if no holder is known, requested.
    pub kind: LockKind,
    /// The holders that are known.
    pub holders: Vec<LockHolder>,
    /// The number of processes that wait. It is larger than the number of those in `waiting` if the user may not read
    /// the queue, or if there are more than a thousand.
    pub waiters: u64,
    /// The processes that wait and are known, the next one first, up to a thousand.
    pub waiting: Vec<LockWaiter>,
}

/// This client's data about one of its own locks.
#[derive(Clone, Debug)]
pub(crate) struct OwnAccount {
    pub(super) client: LockClient,
    pub(super) account: Account,
}

pub(super) fn client(id: &str, who: &Who) -> LockClient {
    let Who { host, pid, program, version, met } = who.clone();
    let (busy, lost) = (met.map(|met| met.busy), met.map(|met| met.lost));
    LockClient { id: id.to_owned(), host, pid, program, version, busy, lost }
}

impl OwnAccount {
    fn holder(&self, hold: &HoldAccount) -> LockHolder {
        LockHolder {
            token: token_text(&self.client.id, hold.token),
            remaining: Some(hold.left),
            client: Some(self.client.clone()),
            label: Some(hold.label.clone()),
            since: Some(hold.since),
            users: Some(hold.users),
            value: None,
        }
    }

    fn waiter(&self) -> Option<LockWaiter> {
        let wait = self.account.wait.as_ref()?;
        Some(LockWaiter {
            token: wait.token.map(|token| token_text(&self.client.id, token)),
            client: Some(self.client.clone()),
            label: Some(wait.label.clone()),
            since: Some(wait.since),
            requests: Some(wait.requests),
        })
    }
}

impl LockHolder {
    fn stored(token: &str, remaining: Option<Duration>, details: Option<&OwnerDetails>) -> LockHolder {
        let details = details.cloned().unwrap_or_default();
        LockHolder {
            token: token.to_owned(),
            remaining,
            client: client_of(token).map(|id| client(id, &details.who)),
            label: details.label,
            since: details.since,
            users: details.users,
            value: details.value.as_deref().and_then(value_of).map(str::to_owned),
        }
    }
}

impl LockWaiter {
    fn id(&self) -> Option<&str> {
        self.client.as_ref().map(|client| &*client.id)
    }

    fn stored(token: &str, details: Option<&OwnerDetails>) -> LockWaiter {
        let details = details.cloned().unwrap_or_default();
        LockWaiter {
            token: Some(token.to_owned()),
            client: client_of(token).map(|id| client(id, &details.who)),
            label: details.label,
            since: details.since,
            requests: None,
        }
    }
}

/// The holder of an exclusive lock, as the store knows it.
pub(crate) fn holder(found: &StoredLock) -> LockHolder {
    let owner = found.first_holder();
    let details = found.details.iter().find(|(of, _)| of == owner).map(|(_, details)| details);
    LockHolder::stored(owner, found.remaining(), details)
}

/// The holders and waiters of the store's data, with the additional data of this client about its own.
fn parties(found: &StoredLock, told: Option<&OwnAccount>) -> (Vec<LockHolder>, Vec<LockWaiter>) {
    let details = |token: &str| found.details.iter().find(|(of, _)| of == token).map(|(_, details)| details);
    let own: Vec<LockHolder> =
        told.iter().flat_map(|told| told.account.holds.iter().map(|hold| told.holder(hold))).collect();
    let holder = |token: &str, remaining| match own.iter().find(|own| own.token == token) {
        Some(own) => LockHolder {
            remaining,
            value: details(token).and_then(|known| value_of(known.value.as_deref()?)).map(str::to_owned),
            ..own.clone()
        },
        None => LockHolder::stored(token, remaining, details(token)),
    };
    let holders = match found.kind {
        LockKind::Exclusive if found.holders.is_empty() => vec![holder(found.first_holder(), None)],
        // The key's value is a marker, because its holders could not be read.
        _ => {
            let named = found.holders.iter().filter(|(token, _)| kind_of(token) == LockKind::Exclusive);
            named.map(|(token, left)| holder(token, *left)).collect()
        }
    };
    let own = told.and_then(OwnAccount::waiter);
    let waiter = |token: &String| match &own {
        Some(own) if own.token.as_deref() == Some(token) => own.clone(),
        _ => LockWaiter::stored(token, details(token)),
    };
    let mut waiting: Vec<LockWaiter> = found.waiting.iter().map(waiter).collect();
    waiting.extend(own.filter(|own| waiting.iter().all(|other| other.id() != own.id())));
    (holders, waiting)
}

fn count(waiting: &[LockWaiter]) -> u64 {
    u64::try_from(waiting.len()).unwrap_or(u64::MAX)
}

impl LockInfo {
    pub(crate) fn of(key: &str, prefix: &str, found: &StoredLock, told: Option<&OwnAccount>) -> Self {
        let (holders, waiting) = parties(found, told);
        let own = told.map(|told| &*told.client.id);
        let silent = found.silent.iter().filter(|client| Some(&***client) != own).cloned();
        LockInfo {
            key: key.to_owned(),
            full_key: format!("{prefix}{key}"),
            kind: found.kind,
            holder: found.first_holder().to_owned(),
            holders,
            remaining: found.remaining(),
            waiters: found.waiters,
            waiters_here: 0,
            waiting,
            unanswered: silent.collect(),
        }
    }
}

impl LockEntry {
    /// An entry from the store's list.
    pub(super) fn listed(
        key: &str,
        prefix: &str,
        found: &StoredLock,
        told: Option<&OwnAccount>,
    ) -> LockEntry {
        let (holders, waiting) = parties(found, told);
        let waiters = found.waiters.max(count(&waiting));
        let (key, full_key) = (key.to_owned(), format!("{prefix}{key}"));
        LockEntry { key, full_key, kind: found.kind, holders, waiters, waiting }
    }

    /// An entry from this client's data, for a store that no other process uses.
    pub(super) fn told(prefix: &str, told: &OwnAccount) -> Option<LockEntry> {
        let Account { key, holds, wait } = &told.account;
        let kind = holds.first().map(|hold| hold.kind).or_else(|| wait.as_ref().map(|wait| wait.kind))?;
        let mut holders: Vec<LockHolder> = holds.iter().map(|hold| told.holder(hold)).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.remaining));
        let waiting: Vec<LockWaiter> = told.waiter().into_iter().collect();
        let (key, full_key) = (key.to_string(), format!("{prefix}{key}"));
        Some(LockEntry { key, full_key, kind, holders, waiters: count(&waiting), waiting })
    }
}
