//! Lists all locks, page by page. Only one page is in memory, whatever the number of locks.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::LockManager;
use super::lock_info::{LockClient, LockEntry, OwnAccount, client};
use crate::backend::Others;
use crate::driver::Core;
use crate::error::LockError;
use crate::key::LockKey;
use crate::protocol::{LONGEST_PATTERN, ListPage, Pattern, StoreError, StoredLocks};

/// The number of entries that are read ahead.
const AHEAD: usize = 16;
/// The number of keys that are read together. Each may have a thousand holders and a thousand waiters.
const TOGETHER: usize = 32;
/// The largest number of clients without a heartbeat that are named.
const MOST_SILENT: usize = 1_000;

/// All locks, in the order of their keys; see [`LockManager::list`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let guard = manager.lock("order:42").acquire().await?;
/// let mut locks = manager.list("*"); // also a `Stream` of the crate `futures`
/// while let Some(lock) = locks.next().await {
///     println!("{}", lock?.key);
/// }
/// # drop(guard);
/// # Ok(()) }
/// ```
pub struct Locks {
    items: Receiver<ListEvent>,
    clients: Vec<LockClient>,
    unanswered: Vec<String>,
    unread: Vec<String>,
    ended: bool,
    /// The manager's thread does the work.
    _manager: LockManager,
}

enum ListEvent {
    Lock(LockEntry),
    Client(LockClient),
    Unanswered(String),
    Unread(String),
    Failed(LockError),
    End,
}

/// The reader was dropped.
struct Unread;

impl LockManager {
    /// Lists the locks of this deployment (this store, this key prefix) that are held or waited for, and whose keys
    /// match `pattern`. `*` matches any text, `?` matches one character, and `\` escapes the next character. The list
    /// is in the order of the keys, unless the store has its own order.
    ///
    /// The list comes from the store, so it includes the locks of dead processes until their leases expire, and the
    /// locks of programs that do not use this library. On Redis, SCAN goes through the names of all keys, in parts, on
    /// every master of a cluster. Every string below the prefix counts as a lock, so use a separate prefix or database
    /// for locks. The holders write records about themselves: see [`inspect`](LockManager::inspect). Only one page is
    /// in memory. If the reader stops, the list costs nothing.
    ///
    /// The user needs `+scan`. Without `+lrange`, the waiters are counted, but not named.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let mut locks = manager.list("order:*");
    /// while let Some(lock) = locks.next().await {
    ///     let lock = lock?;
    ///     println!("{}: {} holders, {} processes wait", lock.key, lock.holders.len(), lock.waiters);
    /// }
    /// assert!(locks.unanswered().is_empty());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The stream ends with [`LockError::Unavailable`] if the server is unreachable or refuses the command, and with
    /// [`LockError::InvalidOptions`] if the pattern is longer than 1 KiB or the store cannot list its locks.
    #[doc(alias("ls", "SCAN", "all locks", "active locks"))]
    pub fn list(&self, pattern: impl AsRef<str>) -> Locks {
        let (sender, items) = mpsc::channel(AHEAD);
        let core = self.core().clone();
        let pattern = Pattern::read(pattern.as_ref()).ok_or_else(|| {
            LockError::options(format!("a pattern of more than {LONGEST_PATTERN} bytes: make it shorter"))
        });
        let (manager, unavailable_after) = (self.clone(), self.0.defaults().unavailable_after);
        if let Some(error) = core.refusal() {
            // There is no I/O thread.
            drop(sender.try_send(ListEvent::Failed(unavailable(error))));
        } else {
            self.core().aside(async move {
                let items = Items { core, sender, unavailable_after };
                let last = match pattern {
                    Ok(pattern) => items.list(&pattern).await,
                    Err(error) => Ok(ListEvent::Failed(error)),
                };
                if let Ok(last) = last {
                    drop(items.sender.send(last).await);
                }
            });
        }
        let (clients, unanswered, unread) = (Vec::new(), Vec::new(), Vec::new());
        Locks { items, clients, unanswered, unread, ended: false, _manager: manager }
    }
}

impl Locks {
    /// The next lock; `None`: there are no more.
    ///
    /// # Errors
    /// See [`LockManager::list`]. An error is the last item.
    ///
    /// # Cancel safety
    /// Cancel-safe: no lock is lost.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let mut locks = manager.list("*");
    /// assert_eq!(locks.next().await.expect("one lock")?.key, "order:42");
    /// assert!(locks.next().await.is_none());
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<LockEntry, LockError>> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// The connected clients, whether or not they hold a lock, including this process. Complete after the first lock
    /// was read. Other clients are known only on Redis, and only if the pattern begins with `*` or `?`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let mut locks = manager.list("*");
    /// while let Some(lock) = locks.next().await {
    ///     lock?;
    /// }
    /// for client in locks.clients() {
    ///     println!("{} on {:?}", client.id, client.host);
    /// }
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn clients(&self) -> &[LockClient] {
        &self.clients
    }

    /// The ids of clients that hold a listed lock or wait for it, and have sent no heartbeat for 15 s. These clients
    /// are stopped, dead or cut off, or run an earlier version. At most a thousand ids. Only on Redis, where clients
    /// send heartbeats. Complete after the stream has ended.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let mut locks = manager.list("*");
    /// while let Some(lock) = locks.next().await {
    ///     println!("{}", lock?.key);
    /// }
    /// if !locks.unanswered().is_empty() {
    ///     println!("no sign of life from {:?}", locks.unanswered());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn unanswered(&self) -> &[String] {
        &self.unanswered
    }

    /// The servers of the store that could not be read. Their locks are missing. (They are cluster masters that are
    /// unreachable, and servers with too many keys for a scan of one minute.) Complete after the stream has ended.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let mut locks = manager.list("*");
    /// while let Some(lock) = locks.next().await {
    ///     println!("{}", lock?.key);
    /// }
    /// assert!(locks.unread().is_empty(), "there may be more");
    /// # Ok(()) }
    /// ```
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<LockEntry, LockError>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let item = ready!(self.items.poll_recv(cx));
            self.ended = matches!(item, None | Some(ListEvent::Failed(_) | ListEvent::End));
            match item {
                Some(ListEvent::Lock(entry)) => return Poll::Ready(Some(Ok(entry))),
                Some(ListEvent::Client(client)) => self.clients.push(client),
                Some(ListEvent::Unanswered(client)) => self.unanswered.push(client),
                // It is reported with each page.
                Some(ListEvent::Unread(server)) if self.unread.contains(&server) => {}
                Some(ListEvent::Unread(server)) => self.unread.push(server),
                Some(ListEvent::Failed(error)) => return Poll::Ready(Some(Err(error))),
                Some(ListEvent::End) => {}
                // The thread has ended before the end of the list.
                None => return Poll::Ready(Some(Err(LockError::Closed))),
            }
        }
    }
}

impl Stream for Locks {
    type Item = Result<LockEntry, LockError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("unanswered", &self.unanswered).finish_non_exhaustive()
    }
}

fn unavailable(error: StoreError) -> LockError {
    LockError::Unavailable { key: LockKey::from_shared("".into()), source: error.source }
}

/// Creates the items of a list, on the I/O thread.
struct Items {
    core: Arc<Core>,
    sender: Sender<ListEvent>,
    unavailable_after: Duration,
}

impl Items {
    async fn list(&self, pattern: &Pattern) -> Result<ListEvent, Unread> {
        match self.core.backend.others() {
            Others::None => self.own(pattern).await,
            Others::Listed => self.listed(pattern).await,
            Others::Unknown => {
                let store = self.core.backend.describe();
                let error = LockError::options(format!("{store} cannot list its locks: inspect single keys"));
                Ok(ListEvent::Failed(error))
            }
        }
    }

    async fn send(&self, item: ListEvent) -> Result<(), Unread> {
        self.sender.send(item).await.map_err(|_| Unread)
    }

    /// A look at the store may take minutes. It ends with its reader.
    async fn read<T>(&self, looking: impl Future<Output = T>) -> Result<T, Unread> {
        tokio::select! {
            found = looking => Ok(found),
            () = self.sender.closed() => Err(Unread),
        }
    }

    /// This process's knowledge of its own locks.
    fn told(&self, key: &Arc<str>) -> Option<OwnAccount> {
        let account = self.core.account(key)?;
        Some(OwnAccount { client: client(&self.core.client, &self.core.who()), account })
    }

    /// The list of this process's own locks, for a store that no other process uses.
    async fn own(&self, pattern: &Pattern) -> Result<ListEvent, Unread> {
        self.send(ListEvent::Client(client(&self.core.client, &self.core.who()))).await?;
        let mut after: Option<Arc<str>> = None;
        loop {
            let keys = self.core.keys_behind(after.as_deref(), pattern, TOGETHER);
            let Some(last) = keys.last() else { return Ok(ListEvent::End) };
            after = Some(last.clone());
            // A key that was released meanwhile is left out.
            for told in keys.iter().filter_map(|key| self.told(key)) {
                if let Some(entry) = LockEntry::told(self.core.backend.prefix(), &told) {
                    self.send(ListEvent::Lock(entry)).await?;
                }
            }
        }
    }

    /// The list from the store.
    async fn listed(&self, pattern: &Pattern) -> Result<ListEvent, Unread> {
        let (core, beginning) = (&self.core, pattern.beginning());
        self.send(ListEvent::Client(client(&core.client, &core.who()))).await?;
        let (mut after, mut silent) = (None, HashSet::new());
        loop {
            let page = core.reaching(self.unavailable_after, || core.backend.list(&beginning, after.clone()));
            let page = match self.read(page).await? {
                Ok(page) => page,
                Err(error) => return Ok(ListEvent::Failed(unavailable(error))),
            };
            let ListPage { locks, keys, clients, unread, next } = page;
            for (id, who) in clients.into_iter().filter(|(id, _)| *id != core.client) {
                self.send(ListEvent::Client(client(&id, &who))).await?;
            }
            for server in unread {
                self.send(ListEvent::Unread(server)).await?;
            }
            self.locks(locks, pattern, &mut silent).await?;
            let keys: Vec<Arc<str>> = keys.into_iter().filter(|key| pattern.matches(key)).collect();
            for some in keys.chunks(TOGETHER) {
                let locks = core.reaching(self.unavailable_after, || core.backend.inspect_all(some.to_vec()));
                match self.read(locks).await? {
                    Ok(locks) => self.locks(locks, pattern, &mut silent).await?,
                    Err(error) => return Ok(ListEvent::Failed(unavailable(error))),
                }
            }
            if next.is_none() {
                return Ok(ListEvent::End);
            }
            after = next;
        }
    }

    async fn locks(
        &self,
        locks: StoredLocks,
        pattern: &Pattern,
        silent: &mut HashSet<String>,
    ) -> Result<(), Unread> {
        for (key, found) in locks.iter().filter(|(key, _)| pattern.matches(key)) {
            for client in found.silent.iter().filter(|client| ***client != *self.core.client) {
                if silent.len() < MOST_SILENT && silent.insert(client.clone()) {
                    self.send(ListEvent::Unanswered(client.clone())).await?;
                }
            }
            let told = self.told(key);
            let entry = LockEntry::listed(key, self.core.backend.prefix(), found, told.as_ref());
            self.send(ListEvent::Lock(entry)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_look_at_the_store_ends_with_its_reader() {
        let manager = LockManager::in_memory();
        let (sender, receiver) = mpsc::channel(1);
        let items = Items { core: manager.core().clone(), sender, unavailable_after: Duration::ZERO };
        let looking = Arc::new(());
        let held = looking.clone();
        let mut read = Box::pin(items.read(async move {
            pending::<()>().await;
            drop(held);
        }));
        assert!(std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_pending())).await);
        drop(receiver);
        assert!(read.await.is_err());
        assert_eq!(Arc::strong_count(&looking), 1);
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_read_is_named_once() {
        let (sender, items) = mpsc::channel(4);
        let (clients, unanswered, unread) = (Vec::new(), Vec::new(), Vec::new());
        let manager = LockManager::in_memory();
        let mut locks = Locks { items, clients, unanswered, unread, ended: false, _manager: manager };
        // Each page of the list names the servers that it lacks.
        for server in ["one", "two", "one"] {
            sender.try_send(ListEvent::Unread(server.to_owned())).unwrap();
        }
        sender.try_send(ListEvent::End).unwrap();
        assert!(locks.next().await.is_none());
        assert_eq!(locks.unread(), ["one", "two"]);
    }
}
