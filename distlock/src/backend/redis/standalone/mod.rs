//! One Redis server: at a fixed place, or where the sentinels report it.

mod supervisor;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::command::Wire;
use super::config::{Address, RedisConfig, ServerLocation};
use super::diagnosis::{self, Setup};
use super::endpoint::{Endpoint, EndpointState};
use super::errors;
use super::exec::Exec;
use super::handshake::ServerInfo;
use super::link::Link;
use super::listing::{self, Batches, ScanResult, Search};
use super::membership::{Origin, ServerNote};
use super::names::Names;
use super::operation::Operation;
use super::replicas::Replicas;
use super::sentinel::Sentinels;
use crate::backend::ConnectOn;
use crate::backend::fail_all::fail_all;
use crate::backend::{
    AcquireReply, Backend, BatchPart, BatchReply, BoxFuture, Events, Failure, HoldNote, ListPage,
    Notifications, OpResult, Others, ReleaseReply, RenewReply, Sending, StoreError, StoredLock, StoredLocks,
    op,
};
use distlock_store::Finding;
use distlock_store::kit::sync::Locked;

/// Locks on one Redis server.
#[derive(Clone)]
pub(crate) struct RedisBackend {
    shared: Arc<ServerShared>,
}

impl RedisBackend {
    /// Nothing is connected before [`Backend::run`] is polled.
    ///
    /// # Errors
    /// A sentence that says what to change in `config`.
    pub(crate) fn new(config: RedisConfig) -> Result<Arc<RedisBackend>, String> {
        config.check()?;
        Ok(Arc::new(RedisBackend { shared: Arc::new(ServerShared::new(config)) }))
    }

    /// Connects, if it has not been asked to yet.
    pub(crate) fn connect(&self) {
        self.shared.want();
    }

    /// The server's run and the notes on it.
    pub(crate) fn origin(&self) -> BoxFuture<Result<Origin, StoreError>> {
        let (exec, link) = (Arc::clone(&self.shared.exec), self.shared.link_or_connect());
        Box::pin(async move { exec.origin(link?).await })
    }

    /// Replaces the link, if there is one.
    pub(crate) fn give_up(&self, cause: StoreError) {
        if let Some(link) = self.shared.link() {
            link.give_up(cause);
        }
    }

    /// Writes a note on the server for other processes. The first poll fixes its place among other commands.
    pub(crate) fn note(&self, note: ServerNote) -> BoxFuture<Result<(), StoreError>> {
        let (exec, link) = (Arc::clone(&self.shared.exec), self.shared.link_or_connect());
        Box::pin(async move { exec.note(link?, note).await })
    }

    /// Any operation except a request for a lock, which [`Backend::send_acquire`] sends.
    pub(crate) fn send<O: Operation>(&self, key: &Arc<str>, op: O) -> Sending<O::Reply> {
        let shared = &self.shared;
        match shared.link_or_connect() {
            Ok(link) => {
                let exec = Arc::clone(&shared.exec);
                let encoded = exec.encode_alone(key, op.encoder());
                let execute = |link| exec.carry_out(link, Arc::clone(key), op, encoded);
                Sending::Pending(shared.replicated(link, execute, O::promises_lease))
            }
            Err(error) => Sending::Ready(Err(error)),
        }
    }

    /// Many operations, in one round trip if possible. Returns one result for each, in order.
    pub(crate) fn send_batch<O: Operation>(
        &self,
        batch: Vec<(Arc<str>, O)>,
    ) -> BoxFuture<Vec<OpResult<O::Reply>>> {
        match self.shared.link_or_connect() {
            Ok(link) => {
                let executed = Arc::clone(&self.shared.exec).batch(Arc::clone(&link), batch);
                Box::pin(Arc::clone(&self.shared).all_replicated(link, executed, O::promises_lease))
            }
            Err(error) => Box::pin(async move { fail_all(batch.len(), &error) }),
        }
    }

    fn force(&self, key: &Arc<str>, owner: Option<&Arc<str>>) -> BoxFuture<Result<bool, StoreError>> {
        let (exec, link) = (Arc::clone(&self.shared.exec), self.shared.link_or_connect());
        let (key, owner) = (Arc::clone(key), owner.cloned());
        Box::pin(async move { exec.force(link?, key, owner).await })
    }

    /// Looks through the names on the server.
    pub(crate) async fn search(&self, found: &mut ScanResult) -> Result<(), StoreError> {
        let link = self.shared.link_or_connect()?;
        listing::search(&self.shared.exec, &link, &self.shared.config.place.to_string(), found).await
    }

    /// The result, with the connected clients.
    pub(crate) async fn page(&self, found: ScanResult) -> ListPage {
        found.page(self).await
    }

    /// As if the handshake had reported a version before 7.0.
    #[cfg(test)]
    pub(super) fn pretend_old_server(&self) {
        self.shared.exec.handshake_done(&ServerInfo { major: Some(6), ..ServerInfo::default() });
    }
}

impl Batches for RedisBackend {
    fn batch<O: Operation>(&self, batch: Vec<(Arc<str>, O)>) -> BoxFuture<Vec<OpResult<O::Reply>>> {
        self.send_batch(batch)
    }
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisBackend").field(&self.describe()).finish()
    }
}

/// The data that the operations, the supervisor and the push connection share.
#[derive(Debug)]
struct ServerShared {
    config: RedisConfig,
    exec: Arc<Exec>,
    link: Locked<Option<Arc<Link>>>,
    /// Whether a connection is wanted.
    wanted: watch::Sender<bool>,
    state: Locked<EndpointState>,
    /// Whether the first attempt to subscribe has ended.
    tried: watch::Sender<bool>,
    /// The command link leads to another server than the push connection.
    moved: Notify,
    /// Set if acquisitions and renewals count only once replicas have them.
    replicas: Option<Replicas>,
    /// Set if sentinels report where the server is.
    sentinels: Option<Arc<Sentinels>>,
}

impl ServerShared {
    fn new(config: RedisConfig) -> ServerShared {
        let names = Names::new(config.prefix.clone());
        let wire = Wire::new(names, config.client.clone(), &config.tuning);
        ServerShared {
            exec: Arc::new(Exec::new(Arc::new(wire))),
            link: Locked::new(None),
            wanted: watch::Sender::new(config.connect == ConnectOn::Start),
            state: Locked::default(),
            tried: watch::Sender::new(false),
            replicas: Replicas::new(&config),
            moved: Notify::new(),
            sentinels: match &config.place {
                ServerLocation::Sentinel(place) => Some(Arc::new(Sentinels::new(place.clone(), &config))),
                ServerLocation::Fixed(_) | ServerLocation::Cluster(_) | ServerLocation::Shards(_) => None,
            },
            config,
        }
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().clone()
    }

    fn want(&self) {
        self.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
    }

    fn link_or_connect(&self) -> Result<Arc<Link>, StoreError> {
        self.link().ok_or_else(|| {
            self.want();
            errors::found(Failure::NotSent, format!("not connected to {}", self.config.place))
        })
    }

    /// An operation over `link`. Replicas confirm a reply that promises a lease.
    fn replicated<T: Send + 'static, F: Future<Output = OpResult<T>> + Send + 'static>(
        self: &Arc<Self>,
        link: Arc<Link>,
        execute: impl FnOnce(Arc<Link>) -> F,
        promises: fn(&T) -> bool,
    ) -> BoxFuture<OpResult<T>> {
        if self.replicas.is_none() {
            return Box::pin(execute(link));
        }
        let (shared, executed) = (Arc::clone(self), execute(Arc::clone(&link)));
        Box::pin(async move {
            let result = executed.await;
            match &shared.replicas {
                Some(replicas) => replicas.confirm_replicated(&link, result, promises).await,
                None => result,
            }
        })
    }

    /// Many operations over `link`. Replicas confirm the replies that promise a lease.
    async fn all_replicated<T>(
        self: Arc<Self>,
        link: Arc<Link>,
        executed: impl Future<Output = Vec<OpResult<T>>>,
        promises: impl Fn(&T) -> bool,
    ) -> Vec<OpResult<T>> {
        let results = executed.await;
        match &self.replicas {
            Some(replicas) => replicas.confirm_all_replicated(&link, results, promises).await,
            None => results,
        }
    }

    /// The server that the commands go to, if there is one.
    fn endpoint(&self) -> Option<Endpoint> {
        let state = self.state.lock();
        state.at.clone().filter(|_| state.up)
    }

    /// Waits for the first attempt to subscribe, but not for long.
    async fn wait_for_pushes(&self, most: Duration) {
        let mut tried = self.tried.subscribe();
        drop(tokio::time::timeout(most, tried.wait_for(|tried| *tried)).await);
    }

    /// Offers `link` to operations.
    fn offer(&self, link: Arc<Link>, address: &Address, server: &ServerInfo) -> Notifications {
        self.exec.handshake_done(server);
        let mut state = self.state.lock();
        state.up = true;
        let was_known = state.push_at.as_ref().is_some_and(|push_at| push_at.run_id.is_some());
        let comparable = was_known && server.run_id.is_some();
        state.push_is_older |= state.subscribed && state.at.is_some() && !comparable;
        state.at = Some(Endpoint { address: address.clone(), run_id: server.run_id.clone() });
        let (pushes, split) = (state.pushes(), state.split());
        drop(state);
        if split {
            self.moved.notify_one();
        }
        *self.link.lock() = Some(link);
        pushes
    }
}

impl Backend for RedisBackend {
    fn send_acquire(&self, key: &Arc<str>, op: op::Ask) -> Sending<AcquireReply> {
        let shared = &self.shared;
        match shared.link_or_connect() {
            Ok(link) => {
                let exec = Arc::clone(&shared.exec);
                if let (true, op::Ask::Plain(op)) = (shared.config.member, op) {
                    return Sending::Pending(Box::pin(exec.set_with_time(link, Arc::clone(key), op)));
                }
                let encoded = shared.exec.encode(key, &op);
                let execute = |link| exec.acquire(link, Arc::clone(key), op, encoded);
                Sending::Pending(shared.replicated(link, execute, AcquireReply::is_acquired))
            }
            Err(error) => Sending::Ready(Err(error)),
        }
    }

    fn cannot_replace(&self) -> Option<String> {
        None
    }

    fn send_replace(&self, key: &Arc<str>, op: op::Replace) -> Sending<AcquireReply> {
        self.send(key, op)
    }

    fn send_release(&self, key: &Arc<str>, op: op::Release) -> Sending<ReleaseReply> {
        self.send(key, op)
    }

    fn send_renew(&self, key: &Arc<str>, op: op::Renew) -> Sending<RenewReply> {
        self.send(key, op)
    }

    fn send_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> Vec<BatchPart<RenewReply>> {
        BatchPart::all(batch.len(), self.send_batch(batch))
    }

    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        keys.len().min(self.shared.exec.most_keys_at_once())
    }

    fn send_acquire_all(&self, batch: Vec<(Arc<str>, op::Acquire)>) -> BoxFuture<Vec<OpResult<BatchReply>>> {
        match self.shared.link_or_connect() {
            Ok(link) => {
                let executed = Arc::clone(&self.shared.exec).acquires_all(Arc::clone(&link), batch);
                let acquires = |reply: &BatchReply| reply.tried().is_some_and(AcquireReply::is_acquired);
                Box::pin(Arc::clone(&self.shared).all_replicated(link, executed, acquires))
            }
            Err(error) => Box::pin(async move { fail_all(batch.len(), &error) }),
        }
    }

    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<StoredLock>, StoreError>> {
        Box::pin(listing::inspect_one(self.clone(), Arc::clone(key)))
    }

    fn others(&self) -> Others {
        Others::Listed
    }

    fn list(&self, beginning: &str, after: Option<Arc<str>>) -> BoxFuture<Result<ListPage, StoreError>> {
        let (this, mut found) = (self.clone(), ScanResult::new(Search::new(beginning, after)));
        Box::pin(async move {
            this.search(&mut found).await?;
            Ok(this.page(found).await)
        })
    }

    fn inspect_all(&self, keys: Vec<Arc<str>>) -> BoxFuture<Result<StoredLocks, StoreError>> {
        Box::pin(listing::inspect_all(self.clone(), keys))
    }

    fn note_holds(&self, notes: &mut dyn Iterator<Item = HoldNote>) -> Option<BoxFuture<()>> {
        let link = self.shared.link()?;
        let records = notes.map(|note| self.shared.exec.wire.note(&note)).collect();
        Some(Box::pin(Exec::write(link, records)))
    }

    fn publishes(&self) -> bool {
        true
    }

    fn diagnose(&self) -> BoxFuture<Result<Vec<Finding>, StoreError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let link = shared.link_or_connect()?;
            let confirmed = shared.replicas.is_some();
            let setup = if shared.config.member { Setup::Member } else { Setup::Single { confirmed } };
            diagnosis::examine(&shared.exec, &link, &shared.config.place.to_string(), setup).await
        })
    }

    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        self.force(key, None)
    }

    fn force_release_from(&self, key: &Arc<str>, owner: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        self.force(key, Some(owner))
    }

    fn refusal(&self) -> Option<StoreError> {
        self.shared.exec.refusal()
    }

    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()> {
        Box::pin(supervisor::run(Arc::clone(&self.shared), events))
    }

    fn prefix(&self) -> &str {
        &self.shared.config.prefix
    }

    fn describe(&self) -> String {
        format!("redis at {}, database {}", self.shared.config.place, self.shared.config.login.database)
    }
}
