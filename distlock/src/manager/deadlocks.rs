//! The deadlocks of all processes.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::backend::Others;
use crate::deadlock::{Deadlock, WaitsFor, judge, proves};
use crate::error::LockError;
use crate::key::LockKey;
use crate::protocol::{LockKind, parse_owner};
use distlock_store::clock;

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// A request in a deadlock is published again within eight seconds.
const MOST_LOOKS: usize = 10;
/// The number of keys that are read together.
const TOGETHER: usize = 32;

impl LockManager {
    /// Returns the present deadlocks of all processes: holders that wait for each other inside their sections. Each
    /// deadlock is certain, because two looks, a second apart, have found the same owners and requests. If the first
    /// look finds none, the search ends. Otherwise it takes at most about ten seconds.
    ///
    /// A request inside a section ([`run`](crate::LockRequest::run), an annotated function) that has waited for a
    /// second publishes this fact next to each exclusive lock that the section and the sections around it hold. Plain
    /// guards, requests of spawned tasks, requests for several keys, and holders of shared and limited locks publish
    /// nothing, so their deadlocks are not seen. See "Deadlocks" in docs/operating.md.
    ///
    /// It lists the locks of the store and reads each exclusive one, so it costs about as much as
    /// [`list`](LockManager::list), and on stores other than Redis one or two round trips for each lock. In memory, it
    /// sees the deadlocks in which this manager has a part.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// for deadlock in manager.deadlocks().await? {
    ///     eprintln!("{deadlock}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Unavailable`] if the server is unreachable or refuses a command, and [`LockError::InvalidOptions`]
    /// if the store cannot list its locks (Memcached), or keeps no texts next to them.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    #[doc(alias("deadlock detection", "waits-for graph", "pg_locks"))]
    pub fn deadlocks(&self) -> impl Future<Output = Result<Vec<Deadlock>, LockError>> + Send {
        Box::pin(self.find_deadlocks())
    }

    async fn find_deadlocks(&self) -> Result<Vec<Deadlock>, LockError> {
        let mut candidates: Vec<(Deadlock, Option<Deadlock>)> =
            self.all_waits().await?.cycles().into_iter().map(|cycle| (cycle, None)).collect();
        let mut certain = Vec::new();
        for _ in 0..MOST_LOOKS {
            if candidates.is_empty() {
                break;
            }
            let began = clock::now();
            let mut seen = WaitsFor::default();
            for (cycle, _) in &candidates {
                for key in cycle.members().iter().map(|member| Arc::from(&*member.held)) {
                    self.read(&mut seen, key).await?;
                }
            }
            if proves(clock::now().duration_since(began)) {
                let found = seen.cycles();
                candidates.retain_mut(|(cycle, suspected)| {
                    let again = found.iter().find(|found| found.is_same(cycle)).cloned();
                    let is_gone = again.is_none();
                    let judged = judge(suspected, again);
                    let is_open = !is_gone && judged.is_none();
                    certain.extend(judged);
                    is_open
                });
            }
            if !candidates.is_empty() {
                self.core().sleep(PAUSE).await;
            }
        }
        Ok(certain)
    }

    async fn read(&self, graph: &mut WaitsFor, key: Arc<str>) -> Result<(), LockError> {
        let named = LockKey::from_shared(key.clone());
        let found = self.look_up(&named).await?;
        let holder = found.and_then(|found| self.core().holder_of(&key, &found));
        graph.insert(key, holder);
        Ok(())
    }

    /// All holders that wait, from the list of the store.
    async fn all_waits(&self) -> Result<WaitsFor, LockError> {
        let core = self.core();
        match core.backend.others() {
            Others::None => self.own_waits().await,
            Others::Listed if core.backend.publishes() => self.listed_waits().await,
            Others::Listed | Others::Unknown => Err(LockError::options(format!(
                "{} does not list its locks with what their holders publish, so deadlocks of other processes are not seen",
                core.backend.describe()
            ))),
        }
    }

    /// Starts at the requests of this client, and follows the holders of their keys.
    async fn own_waits(&self) -> Result<WaitsFor, LockError> {
        let mut graph = WaitsFor::default();
        for key in self.core().nested_keys() {
            while let Some(unread) = graph.next_unread(&key) {
                self.read(&mut graph, unread).await?;
            }
        }
        Ok(graph)
    }

    async fn listed_waits(&self) -> Result<WaitsFor, LockError> {
        let (core, anywhere) = (self.core(), LockKey::from_shared("distlock".into()));
        let (mut graph, mut after) = (WaitsFor::default(), None);
        loop {
            let page = self.reaching(&anywhere, |core, _| core.backend.list("", after.clone())).await?;
            for (key, found) in page.locks {
                if found.kind == LockKind::Exclusive && parse_owner(found.first_holder()).is_some() {
                    self.read(&mut graph, key).await?;
                }
            }
            for some in page.keys.chunks(TOGETHER) {
                let read = self.reaching(&anywhere, |core, _| core.backend.inspect_all(some.to_vec()));
                for (key, found) in read.await? {
                    graph.insert(key.clone(), core.holder_of(&key, &found));
                }
            }
            graph.keep_those_that_wait();
            after = page.next;
            if after.is_none() {
                return Ok(graph);
            }
        }
    }
}
