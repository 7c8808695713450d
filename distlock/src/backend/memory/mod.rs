//! Locks in the memory of this process, for development, unit tests, and programs of a single process.
//!
//! Replies at once, on the calling thread, so that hand-offs need no other thread.

pub(crate) mod server;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use once_cell::sync::OnceCell;

use super::{
    AcquireReply, Backend, BatchPart, BatchReply, BoxFuture, EarlierCommands, Events, HoldNote, LinkEvent,
    OpResult, StoreError, StoredLock, token_text,
};
use super::{Notifications, ReleaseReply, RenewReply, Sending, ServerTime, Tuning, op};
use distlock_store::Finding;
use distlock_store::clock;
use distlock_store::engine::Time;
use distlock_store::kit::sync::Locked;
use server::{ModelServer, Note, Sender};

/// The client of a manager, and what hears its news.
type Receiver = (Arc<str>, Weak<dyn Events>);

/// The locks and their clock: the wall clock at the start, continued monotonically.
pub(crate) struct MemoryStore {
    server: Locked<ModelServer>,
    started: Time,
    wall_at_start: u64,
    /// The managers that share the locks, like the processes of a test, each with its client.
    receivers: Locked<Vec<Receiver>>,
}

impl MemoryStore {
    pub(crate) fn new(tuning: Tuning) -> Arc<Self> {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Arc::new(MemoryStore {
            server: Locked::new(ModelServer::new(tuning)),
            started: clock::now(),
            wall_at_start: u64::try_from(wall.as_micros()).unwrap_or(0),
            receivers: Locked::default(),
        })
    }

    fn now(&self) -> ServerTime {
        let elapsed = clock::now().duration_since(self.started);
        ServerTime(self.wall_at_start.saturating_add(u64::try_from(elapsed.as_micros()).unwrap_or(0)))
    }

    fn receiver(&self, client: &Arc<str>) -> Option<Arc<dyn Events>> {
        self.receivers.lock().iter().find(|(name, _)| name == client)?.1.upgrade()
    }
}

/// The part that one manager uses.
pub(crate) struct Memory {
    client: Arc<str>,
    /// Shown when a lock is inspected. No other program has these locks, so no key needs it.
    prefix: String,
    store: Arc<MemoryStore>,
    events: OnceCell<Weak<dyn Events>>,
}

impl Memory {
    pub(crate) fn new(client: &Arc<str>, prefix: String, store: Arc<MemoryStore>) -> Arc<Self> {
        store.server.lock().subscribe(client);
        Arc::new(Memory { client: client.clone(), prefix, store, events: OnceCell::new() })
    }

    /// The receiver of pushes. They are delivered on the thread whose operation caused them. The link is up
    /// from this call on.
    pub(crate) fn deliver_to(&self, events: &Arc<impl Events + 'static>) {
        let events: Arc<dyn Events> = events.clone();
        self.events.get_or_init(|| Arc::downgrade(&events));
        self.store.receivers.lock().push((self.client.clone(), Arc::downgrade(&events)));
        events.link(LinkEvent::Up { earlier: EarlierCommands::Ended, pushes: Notifications::On });
    }

    fn now(&self) -> ServerTime {
        self.store.now()
    }

    fn deliver(&self, notes: Vec<Note>) {
        for note in notes {
            let events = if note.client == self.client {
                self.events.get().and_then(Weak::upgrade)
            } else {
                self.store.receiver(&note.client)
            };
            let Some(events) = events else { continue };
            events.push(note.push());
        }
    }

    fn sender<'a>(&'a self, key: &'a Arc<str>) -> Sender<'a> {
        Sender { client: &self.client, key }
    }

    fn renew(&self, key: &Arc<str>, op: &op::Renew) -> RenewReply {
        self.store.server.lock().renew(self.now(), &self.sender(key), op)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.store.server.lock().unsubscribe(&self.client);
        self.store.receivers.lock().retain(|(client, _)| *client != self.client);
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Backend for Memory {
    fn send_acquire(&self, key: &Arc<str>, op: op::Ask) -> Sending<AcquireReply> {
        let mut notes = Vec::new();
        let reply = self.store.server.lock().acquire(self.now(), &self.sender(key), &op, &mut notes);
        self.deliver(notes);
        Sending::Ready(Ok(reply))
    }

    fn cannot_replace(&self) -> Option<String> {
        None
    }

    fn send_replace(&self, key: &Arc<str>, op: op::Replace) -> Sending<AcquireReply> {
        Sending::Ready(Ok(self.store.server.lock().replace(self.now(), &self.sender(key), &op)))
    }

    fn send_release(&self, key: &Arc<str>, op: op::Release) -> Sending<ReleaseReply> {
        let mut notes = Vec::new();
        let reply = self.store.server.lock().release(self.now(), &self.sender(key), &op, &mut notes);
        self.deliver(notes);
        Sending::Ready(Ok(reply))
    }

    fn send_renew(&self, key: &Arc<str>, op: op::Renew) -> Sending<RenewReply> {
        Sending::Ready(Ok(self.renew(key, &op)))
    }

    fn send_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> Vec<BatchPart<RenewReply>> {
        let results = batch.iter().map(|(key, op)| Ok(self.renew(key, op))).collect();
        BatchPart::all(batch.len(), Box::pin(std::future::ready(results)))
    }

    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        keys.len()
    }

    fn send_acquire_all(&self, batch: Vec<(Arc<str>, op::Acquire)>) -> BoxFuture<Vec<OpResult<BatchReply>>> {
        let mut notes = Vec::new();
        let replies = self.store.server.lock().acquire_all(self.now(), &self.client, &batch, &mut notes);
        self.deliver(notes);
        Box::pin(std::future::ready(replies.into_iter().map(Ok).collect()))
    }

    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<StoredLock>, StoreError>> {
        Box::pin(std::future::ready(Ok(self.store.server.lock().inspect(self.now(), key))))
    }

    fn publishes(&self) -> bool {
        true
    }

    fn publish(&self, note: HoldNote) -> BoxFuture<Result<(), StoreError>> {
        let owner = token_text(&self.client, note.hold.token);
        self.store.server.lock().publish(self.now(), &note.key, &owner, note.value);
        Box::pin(std::future::ready(Ok(())))
    }

    fn unpublish(&self, note: HoldNote) -> BoxFuture<Result<(), StoreError>> {
        self.publish(HoldNote { value: None, ..note })
    }

    fn diagnose(&self) -> BoxFuture<Result<Vec<Finding>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        let mut notes = Vec::new();
        let held = self.store.server.lock().force_release(self.now(), key, &mut notes);
        self.deliver(notes);
        Box::pin(std::future::ready(Ok(held)))
    }

    fn force_release_from(&self, key: &Arc<str>, owner: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        let mut notes = Vec::new();
        let held = self.store.server.lock().force_release_from(self.now(), key, owner, &mut notes);
        self.deliver(notes);
        Box::pin(std::future::ready(Ok(held)))
    }

    fn uses_sockets(&self) -> bool {
        false
    }

    fn run(self: Arc<Self>, _events: Arc<dyn Events>) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }

    fn describe(&self) -> String {
        "memory".into()
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }
}

#[cfg(test)]
mod tests {
    use crate::LockManager;

    #[tokio::test]
    async fn nothing_that_leaders_have_published_outlives_their_terms() {
        let store = LockManager::shared_memory();
        let manager = LockManager::of_shared_memory(store.clone(), None);
        for job in 0..1_000 {
            let candidate = manager.leader(format!("job:{job}")).value("10.0.0.7");
            candidate.run(async |_| assert_eq!(store.server.lock().published(), 1)).await.unwrap();
        }
        assert_eq!(store.server.lock().published(), 0);
    }
}
