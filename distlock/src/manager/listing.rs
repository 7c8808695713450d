//! Listing all locks: from the store, if it knows them, else from the clients, whose answers come in the order of the
//! keys, a page at a time, and are merged.
//!
//! No more is in memory than one page of each client, whatever the number of locks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::LockManager;
use super::asking::{Patience, ask_all};
use super::lock_info::{LockClient, LockEntry, Told, client};
use crate::backend::{BoxFuture, Others};
use crate::driver::{Core, LinkSeen, Page};
use crate::error::LockError;
use crate::key::LockKey;
use crate::protocol::inquiry::{About, Rest};
use crate::protocol::{Account, Failure, LONGEST_PATTERN, OpError, Pattern};
use distlock_store::clock;

/// How long a client is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// All clients together, for their first pages.
const PATIENCE_WITH_FIRST_PAGES: Duration = Duration::from_secs(30);
/// One client, for all its pages together; and all clients. A distant one needs its round trip for each page.
const PATIENCE_WITH_PAGES: Duration = Duration::from_secs(10);
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(120);
/// More pages of a client are not asked for: in that time it answers no more of them.
const MOST_PAGES: u32 = 220;
/// What all answers together may take, as text. In memory they need about seven times as much.
const MEMORY: usize = 4 << 20;
/// What one answer may take.
const PAGE: (usize, usize) = (2 << 10, 64 << 10);
/// So many entries are ready before somebody takes them.
const AHEAD: usize = 16;

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
    items: Receiver<Item>,
    clients: Vec<LockClient>,
    unanswered: Vec<String>,
    ended: bool,
    /// Its thread does the work.
    _manager: LockManager,
}

enum Item {
    Lock(LockEntry),
    Client(LockClient),
    Unanswered(String),
    Failed(LockError),
    End,
}

/// Nobody reads any more.
struct Unread;

impl LockManager {
    /// Lists the locks of this deployment (this store, this key prefix) that are held or waited for, and whose keys
    /// match `pattern`: `*` stands for any text, `?` for one character, and `\` takes away the meaning of the next
    /// character. In the order of the keys, but where the store has an order of its own.
    ///
    /// On Redis the connected clients are asked, each for a page at a time, so that neither they nor this process need
    /// memory for all locks at once. A client that does not answer within a second, or tells more than 220 pages (about
    /// 200 000 locks), or is waited for for more than 10 s, is named by [`Locks::unanswered`]; so are those that have
    /// not begun to answer within 30 s, or have not come to their end after two minutes of waiting for clients. The
    /// locks of theirs that were not read are missing, unless a client that answers waits for them. Missing are also
    /// locks of programs that do not use this library, and those of processes that have died, until somebody waits for
    /// them: [`inspect`](LockManager::inspect) of their keys shows them. A client answers with at most twenty pages a
    /// second.
    ///
    /// It costs nothing while nobody asks. The user needs `+pubsub|channels`, to learn which clients there are.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let mut locks = manager.list("order:*");
    /// while let Some(lock) = locks.next().await {
    ///     let lock = lock?;
    ///     println!("{}: {} holders, {} processes wait", lock.key, lock.holders.len(), lock.waiting.len());
    /// }
    /// assert!(locks.unanswered().is_empty());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The stream ends with [`LockError::Unavailable`] if the server cannot be reached or refuses, and with
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
            // There is no thread to do it.
            drop(sender.try_send(Item::Failed(unavailable(error))));
        } else {
            self.core().aside(async move {
                let items = Items { core, sender, unavailable_after };
                let last = match pattern {
                    Ok(pattern) => items.list(&pattern).await,
                    Err(error) => Ok(Item::Failed(error)),
                };
                if let Ok(last) = last {
                    drop(items.sender.send(last).await);
                }
            });
        }
        Locks { items, clients: Vec::new(), unanswered: Vec::new(), ended: false, _manager: manager }
    }
}

impl Locks {
    /// The next lock; `None`: there are no more.
    ///
    /// # Errors
    /// See [`LockManager::list`]. It is the last item.
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

    /// The clients that have answered so far, whether or not they hold a lock; this process is one of them. Complete
    /// when the first lock was read. A store that lists its locks itself tells of no others.
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

    /// The ids of the clients that have not answered so far. Complete when the stream has ended.
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
    ///     println!("there may be more: {:?} did not answer", locks.unanswered());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn unanswered(&self) -> &[String] {
        &self.unanswered
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<LockEntry, LockError>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let item = ready!(self.items.poll_recv(cx));
            self.ended = !matches!(item, Some(Item::Lock(_) | Item::Client(_) | Item::Unanswered(_)));
            match item {
                Some(Item::Lock(entry)) => return Poll::Ready(Some(Ok(entry))),
                Some(Item::Client(client)) => self.clients.push(client),
                Some(Item::Unanswered(client)) => self.unanswered.push(client),
                Some(Item::Failed(error)) => return Poll::Ready(Some(Err(error))),
                Some(Item::End) => {}
                // The thread has ended in the middle of it.
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

fn unavailable(error: OpError) -> LockError {
    LockError::Unavailable { key: LockKey::from_shared("".into()), source: error.source }
}

/// What makes the items of a list, on the I/O thread.
struct Items {
    core: Arc<Core>,
    sender: Sender<Item>,
    unavailable_after: Duration,
}

impl Items {
    async fn list(&self, pattern: &Pattern) -> Result<Item, Unread> {
        match self.core.backend.others() {
            Others::None => self.told(Vec::new(), pattern).await,
            Others::Asked => match self.reaching(|| self.core.backend.clients()).await {
                Ok(clients) => self.told(clients, pattern).await,
                Err(error) => Ok(Item::Failed(unavailable(error))),
            },
            Others::Listed => self.listed(pattern).await,
            Others::Unknown => {
                let store = self.core.backend.describe();
                let error = LockError::options(format!("{store} cannot list its locks: inspect single keys"));
                Ok(Item::Failed(error))
            }
        }
    }

    /// If there was no link, tries again for as long as a request may take.
    async fn reaching<T>(&self, operation: impl Fn() -> BoxFuture<Result<T, OpError>>) -> Result<T, OpError> {
        match operation().await {
            Err(error) if error.kind == Failure::NotSent => {}
            other => return other,
        }
        match self.core.link_within(self.unavailable_after).await {
            LinkSeen::Down(error) => Err(error),
            LinkSeen::Up | LinkSeen::NotYet => operation().await,
        }
    }

    async fn send(&self, item: Item) -> Result<(), Unread> {
        self.sender.send(item).await.map_err(|_| Unread)
    }

    /// As the store lists them. What this process knows of its own is added.
    async fn listed(&self, pattern: &Pattern) -> Result<Item, Unread> {
        let (core, beginning) = (&self.core, pattern.beginning());
        let me = Arc::new(client(&core.client, &core.who()));
        self.send(Item::Client((*me).clone())).await?;
        let mut after = None;
        loop {
            let page = match self.reaching(|| core.backend.list(&beginning, after.clone())).await {
                Ok(page) => page,
                Err(error) => return Ok(Item::Failed(unavailable(error))),
            };
            for (key, found) in page.locks.iter().filter(|(key, _)| pattern.matches(key)) {
                let mine = core.account(key).map(|account| Told { client: me.clone(), account });
                let told: Vec<Told> = mine.into_iter().collect();
                self.send(Item::Lock(LockEntry::listed(key, core.backend.prefix(), found, &told))).await?;
            }
            if page.next.is_none() {
                return Ok(Item::End);
            }
            after = page.next;
        }
    }

    /// As the clients tell.
    async fn told(&self, mut clients: Vec<String>, pattern: &Pattern) -> Result<Item, Unread> {
        clients.retain(|client| **client != *self.core.client);
        let (going_on, left) = (clients.len() + 1, PATIENCE_WITH_ALL);
        let (sources, first) = (Vec::new(), BinaryHeap::new());
        let mut merge = Merge { items: self, pattern, going_on, left, sources, first };
        merge.begin(clients).await?;
        while let Some(entry) = merge.next().await? {
            self.send(Item::Lock(entry)).await?;
        }
        Ok(Item::End)
    }
}

/// What one client tells.
struct Source {
    client: Arc<LockClient>,
    page: VecDeque<Account>,
    rest: Rest,
    /// How many pages it has told, and how much longer it is waited for.
    pages: u32,
    left: Duration,
}

/// The sources, in the order of the first key of each.
struct Merge<'a> {
    items: &'a Items,
    pattern: &'a Pattern,
    /// How many clients may have more to tell: they share the memory.
    going_on: usize,
    /// How much longer any of them is waited for. The time in which nobody reads does not count.
    left: Duration,
    sources: Vec<Source>,
    first: BinaryHeap<Reverse<(Arc<str>, usize)>>,
}

impl Merge<'_> {
    /// The most bytes of the next page.
    fn room(&self) -> usize {
        (MEMORY / self.going_on.max(1)).clamp(PAGE.0, PAGE.1)
    }

    /// The first page of every client.
    async fn begin(&mut self, clients: Vec<String>) -> Result<(), Unread> {
        let core = &self.items.core;
        let room = self.room();
        let own = core.page(self.pattern, None, room);
        let about = |_: &str| About::List { pattern: self.pattern.clone(), after: None };
        let patience = Patience { each: PATIENCE, until: clock::now().after(PATIENCE_WITH_FIRST_PAGES) };
        let answers = ask_all(core, clients, about, (room, patience)).await;
        self.going_on = 0;
        self.source(&core.client, own).await?;
        for (id, page) in answers {
            match page {
                Some(page) => self.source(&id, page).await?,
                None => self.items.send(Item::Unanswered(id)).await?,
            }
        }
        Ok(())
    }

    async fn source(&mut self, id: &str, page: Page) -> Result<(), Unread> {
        let Page { who, accounts, rest } = page;
        let client = Arc::new(client(id, &who));
        self.items.send(Item::Client((*client).clone())).await?;
        self.going_on += usize::from(rest == Rest::More);
        let (page, pages, left) = (accounts.into(), 1, PATIENCE_WITH_PAGES);
        self.sources.push(Source { client, page, rest, pages, left });
        self.stand(self.sources.len() - 1);
        Ok(())
    }

    /// The source takes its place in the order.
    fn stand(&mut self, at: usize) {
        if let Some(account) = self.sources[at].page.front() {
            self.first.push(Reverse((account.key.clone(), at)));
        }
    }

    /// What all clients tell of the first key.
    async fn next(&mut self) -> Result<Option<LockEntry>, Unread> {
        loop {
            let Some(Reverse((key, _))) = self.first.peek() else { return Ok(None) };
            let key = key.clone();
            let mut told = Vec::new();
            while let Some(Reverse((_, at))) = self.first.peek().filter(|Reverse((of, _))| *of == key) {
                let at = *at;
                self.first.pop();
                let source = &mut self.sources[at];
                if let Some(account) = source.page.pop_front() {
                    told.push(Told { client: source.client.clone(), account });
                }
                if source.page.is_empty() && source.rest == Rest::More {
                    self.turn_page(at, key.clone()).await?;
                }
                self.stand(at);
            }
            let entry = LockEntry::told(&key, self.items.core.backend.prefix(), &told);
            // Of a key that was released in between nobody tells anything.
            if entry.is_some() {
                return Ok(entry);
            }
        }
    }

    /// The page behind this key.
    async fn turn_page(&mut self, at: usize, after: Arc<str>) -> Result<(), Unread> {
        let (core, room) = (&self.items.core, self.room());
        let source = &mut self.sources[at];
        let id = source.client.id.clone();
        let page = if *id == *core.client {
            Some(core.page(self.pattern, Some(&after), room))
        } else if source.pages >= MOST_PAGES {
            // It may go on for ever.
            None
        } else {
            let begin = clock::now();
            let patience = PATIENCE.min(source.left).min(self.left);
            let about = About::List { pattern: self.pattern.clone(), after: Some(after) };
            let page = core.ask(&id, about, room, patience).await;
            let waited = clock::now().duration_since(begin);
            source.left = source.left.saturating_sub(waited);
            self.left = self.left.saturating_sub(waited);
            page
        };
        source.pages += 1;
        source.rest = Rest::End;
        self.going_on = self.going_on.saturating_sub(1);
        match page {
            Some(page) => {
                source.page = page.accounts.into();
                // Whatever a client says, the list goes on.
                source.rest = if source.page.is_empty() { Rest::End } else { page.rest };
                self.going_on += usize::from(source.rest == Rest::More);
                Ok(())
            }
            // What is left of its locks is missing.
            None => self.items.send(Item::Unanswered(id)).await,
        }
    }
}
