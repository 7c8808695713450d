//! Deadlocks across processes: which holder waits for what, the cycles among them, and when a cycle is certain.
//!
//! A look reads, key by key, who holds it, and what that holder waits for. The keys are read one after the other, so a
//! look alone proves nothing: a holder may have released its lock before the next key was read. A wait is published
//! when it has lasted for a second, and again from time to time, each time with a greater beat. If a second look finds
//! the same owners and waits, each with a greater beat, then each of the waits has lasted from a second before the
//! first look read it until after that. So if the first look took less than that second, all of them were waiting when
//! it began, and each held the lock for which another one waited.

mod cycle;
mod graph;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::{StoreError, WaitRecord, Who, mutated, parse_owner, waits_of};
pub use cycle::{Deadlock, DeadlockMember};
pub(crate) use graph::WaitsFor;

use distlock_store::clock;
use distlock_store::engine::Time;

/// A request that waits inside a section publishes it after this time.
pub(crate) const PUBLISHED_AFTER: Duration = Duration::from_secs(1);
/// A look that takes longer proves nothing. Less than the time above: the clocks of two processes may drift.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_millis(900);
/// The largest number of keys that one look reads.
const MOST_KEYS: usize = 256;

/// Whether a look was short enough to prove that those that wait were waiting at the same time.
pub(crate) fn proves(took: Duration) -> bool {
    took <= LONGEST_LOOK
}

/// The holder of an exclusive lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Its token, as the store names it.
    pub(crate) owner: Arc<str>,
    pub(crate) who: Who,
    pub(crate) waits: Vec<WaitRecord>,
}

impl Holder {
    /// The holder that the store names, with the waits that were published next to the lock if they are its own.
    /// `None`: no client of this library.
    pub(crate) fn of(owner: &str, who: Who, published: Option<&str>) -> Option<Self> {
        let (_, token) = parse_owner(owner)?;
        let waits = published.map(|text| waits_of(text, token)).unwrap_or_default();
        Some(Holder { owner: owner.into(), who, waits })
    }
}

/// The holder of a key, as the store names it.
pub(crate) type Read<'a> = Pin<Box<dyn Future<Output = Result<Option<Holder>, StoreError>> + Send + 'a>>;

/// Reads who holds a key, for a look.
pub(crate) trait Records: Sync {
    fn holder(&self, key: &Arc<str>) -> Read<'_>;
}

/// Why a look has no result. An earlier suspicion still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// The store has not answered.
    Unanswered,
    /// The look took too long to prove anything.
    TooSlow,
    /// The waits lead to more keys than one look reads.
    TooManyKeys,
}

/// Looks for several requests, one after the other. Each uses what those before it have read, as long as that is
/// not too old.
pub(crate) struct Looks<'a> {
    records: &'a dyn Records,
    graph: WaitsFor,
    /// When the first of its keys was read.
    began: Time,
}

impl<'a> Looks<'a> {
    pub(crate) fn new(records: &'a dyn Records) -> Self {
        Looks { records, graph: WaitsFor::default(), began: clock::now() }
    }

    /// Looks for a deadlock through the request `number` of `client`, which waits for `key`.
    pub(crate) async fn look(
        &mut self,
        request: (&str, u64),
        key: &Arc<str>,
    ) -> Result<Option<Deadlock>, Unfinished> {
        loop {
            let is_fresh = self.graph.len() == 0;
            if is_fresh {
                self.began = clock::now();
            }
            let found = look(&mut self.graph, self.records, request, key).await;
            let found = if proves(clock::now().duration_since(self.began)) {
                found
            } else {
                Err(Unfinished::TooSlow)
            };
            if matches!(found, Err(Unfinished::TooSlow | Unfinished::TooManyKeys)) {
                self.graph = WaitsFor::default();
                // Without what was read for other requests, there may be time and room.
                if !is_fresh {
                    continue;
                }
            }
            return found;
        }
    }
}

/// Looks for a deadlock through the request `number` of `client`, which waits for `key`. `graph` has what was read
/// before.
async fn look(
    graph: &mut WaitsFor,
    records: &dyn Records,
    request: (&str, u64),
    key: &Arc<str>,
) -> Result<Option<Deadlock>, Unfinished> {
    loop {
        let found = graph.cycle_through(request, key);
        let Some(unread) = graph.next_unread(key).filter(|_| found.is_none()) else { return Ok(found) };
        if graph.len() >= MOST_KEYS {
            return Err(Unfinished::TooManyKeys);
        }
        let holder = records.holder(&unread).await.map_err(|_| Unfinished::Unanswered)?;
        graph.insert(unread, holder);
    }
}

/// The result of a look for the same request as the looks before. Returns a deadlock that is certain. `suspected`: the
/// cycle that an earlier look found.
pub(crate) fn judge(suspected: &mut Option<Deadlock>, found: Option<Deadlock>) -> Option<Deadlock> {
    match (suspected.as_ref(), found) {
        (Some(first), Some(found)) if found.is_same(first) => found.has_lasted_since(first).then_some(found),
        (_, found) => {
            let certain = found.clone().filter(|_| mutated!(DeadlockAfterOneLook));
            *suspected = found;
            certain
        }
    }
}
