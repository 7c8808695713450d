//! One connection to one member: commands, the permanent watch, the heartbeats.
//!
//! The client would spread commands over all members, and would continue to use a member that is stopped or cut off
//! from the others. So it gets one member at a time, and [`supervisor`](super::supervisor) replaces it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etcd_client::{
    Client, ConnectOptions, Error as ClientError, KvClient, LeaseGrantOptions, LeaseKeepAliveStream,
    LeaseKeeper, PutOptions, Txn, WatchFilterType, WatchOptions, WatchStream,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::batching::{Batcher, Batches, Route};
use super::config::Config;
use super::errors::{Connection, LinkError, needs_no_login};
use super::keys::session_value;
use super::tls;
use super::transactions::{Epoch, TxnReply};
use distlock_store::StoreError;

/// How often the connection is pinged while nothing is in flight. Servers close connections that are pinged more often
/// than every 5 s (`--grpc-keepalive-min-time`).
const PING_INTERVAL: Duration = Duration::from_secs(6);

/// The largest accepted message, in bytes. The client's own limit is 4 MiB, and the message about the end of a session
/// with about 40 000 places is larger.
const LARGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// A connection with which commands can be sent.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) member: Member,
    pub(super) epoch: Epoch,
    batcher: Batcher,
    /// The channel for errors of the connection.
    reporter: mpsc::UnboundedSender<LinkError>,
    /// An error was reported, so the connection will be replaced.
    has_failed: Arc<AtomicBool>,
}

/// The member of the current connection.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) client: Client,
    /// Its name in messages.
    place: String,
    /// The prefix of every key.
    all: String,
    response_timeout: Duration,
}

impl Member {
    pub(super) async fn connect(config: &Config, address: &str) -> Result<Member, LinkError> {
        let place = format!("etcd at {address}");
        let unusable = |text: String| LinkError::later(format!("cannot connect to {place}: {text}"));
        let login = config.login.ask("etcd").await.map_err(unusable)?;
        let mut options = ConnectOptions::new()
            .with_keep_alive(PING_INTERVAL, config.response_timeout)
            .with_keep_alive_while_idle(true)
            .with_connect_timeout(config.connect_timeout)
            .with_timeout(config.response_timeout)
            .with_require_leader(true);
        let mut scheme = "http";
        if let Some(files) = &config.tls {
            options = options.with_tls(tls::options(files).await.map_err(unusable)?);
            scheme = "https";
        }
        let url = [format!("{scheme}://{address}")];
        let client = match login {
            None => Client::connect(&url, Some(options)).await,
            Some((user, password)) => {
                match Client::connect(&url, Some(options.clone().with_user(user, password))).await {
                    // A cluster without users accepts every client.
                    Err(error) if needs_no_login(&error) => Client::connect(&url, Some(options)).await,
                    connected => connected,
                }
            }
        };
        let all = config.names.all().to_owned();
        let client = client.map_err(|error| LinkError::from(&error, &place, &all))?;
        Ok(Member { client, place, all, response_timeout: config.response_timeout })
    }

    fn kv(&self) -> KvClient {
        self.client.kv_client().max_decoding_message_size(LARGEST_MESSAGE)
    }

    /// Awaits a reply, with a time-out.
    pub(super) async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, LinkError> {
        match timeout(self.response_timeout, asked).await {
            Ok(answer) => answer.map_err(|error| self.error(&error)),
            Err(_) => Err(self.no_reply()),
        }
    }

    fn error(&self, error: &ClientError) -> LinkError {
        LinkError::from(error, &self.place, &self.all)
    }

    fn no_reply(&self) -> LinkError {
        LinkError::unknown(format!("{} did not answer within {:?}", self.place, self.response_timeout))
    }

    fn unexpected(&self, what: &str) -> LinkError {
        LinkError::unknown(format!("{}: {what}", self.place))
    }

    /// Creates a lease. A server may give it another ttl than the requested one.
    pub(super) async fn grant(&self, ttl: i64) -> Result<i64, LinkError> {
        let mut client = self.client.lease_client();
        self.answer(client.grant(ttl, Some(LeaseGrantOptions::new()))).await.map(|granted| granted.id())
    }

    /// Ends a lease. If this fails, the lease expires.
    pub(super) async fn revoke(&self, lease: i64) -> Result<(), LinkError> {
        let mut client = self.client.lease_client();
        self.answer(client.revoke(lease)).await.map(drop)
    }

    /// Writes the session's key. After that, commands of earlier connections are no longer executed.
    pub(super) async fn begin(&self, name: String, lease: i64) -> Result<Epoch, LinkError> {
        let mut client = self.kv();
        let put = client.put(&*name, session_value(), Some(PutOptions::new().with_lease(lease)));
        let written = self.answer(put).await?;
        let revision =
            written.header().map(|header| header.revision()).ok_or_else(|| self.unexpected("no revision"))?;
        Ok(Epoch { name, revision, lease })
    }

    /// Watches every key of this program that is deleted from now on.
    pub(super) async fn watch(&self) -> Result<Watch, LinkError> {
        let mut client = self.client.watch_client().max_decoding_message_size(LARGEST_MESSAGE);
        let options = WatchOptions::new().with_prefix().with_filters([WatchFilterType::NoPut]);
        let stream = self.answer(client.watch(&*self.all, Some(options))).await?;
        let mut watch = Watch { stream, member: self.clone() };
        match timeout(self.response_timeout, watch.next()).await {
            Ok(created) => created.map(|_| watch),
            Err(_) => Err(self.no_reply()),
        }
    }

    /// Opens the stream for the heartbeats of a session.
    pub(super) async fn keep_alive(&self, epoch: &Epoch) -> Result<KeepAlive, LinkError> {
        let mut client = self.client.lease_client();
        let (keeper, stream) = self.answer(client.keep_alive(epoch.lease)).await?;
        Ok(KeepAlive { keeper, stream, member: self.clone(), epoch: epoch.clone() })
    }

    pub(super) fn into_link(
        self,
        epoch: Epoch,
        batcher: Batcher,
        reporter: mpsc::UnboundedSender<LinkError>,
    ) -> Link {
        Link { member: self, epoch, batcher, reporter, has_failed: Arc::default() }
    }
}

impl Link {
    pub(super) async fn txn(&self, txn: Txn) -> Result<TxnReply, LinkError> {
        self.send(txn).await.inspect_err(|error| self.report(error))
    }

    /// Sends a transaction that gives a place a separate lease. `None`: that lease has ended, and nothing was done.
    /// Never in a batch, which would be refused with it.
    pub(super) async fn txn_with_lease(&self, txn: Txn) -> Result<Option<TxnReply>, StoreError> {
        match self.send(txn).await {
            // It is not the lease of the session, whose end is not reported here.
            Err(error) if error.lease_is_gone => Ok(None),
            answer => answer.map(Some).inspect_err(|error| self.report(error)).map_err(|error| error.store),
        }
    }

    async fn send(&self, txn: Txn) -> Result<TxnReply, LinkError> {
        let mut client = self.member.kv();
        let answer = self.member.answer(client.txn(txn)).await?;
        Ok(TxnReply::from(&answer))
    }

    /// Sends a transaction for one lock, in a batch if many are in flight.
    pub(super) async fn txn_of(&self, key: &Arc<str>, txn: Txn) -> Result<TxnReply, LinkError> {
        match self.batcher.route(key, txn) {
            Route::Direct(txn, _permit) => self.txn(txn).await,
            Route::Batched(answered) => {
                answered.await.unwrap_or_else(|_| Err(self.member.unexpected("the connection was closed")))
            }
            Route::Closed => {
                Err(LinkError::later(format!("{}: the connection was closed", self.member.place)))
            }
        }
    }

    /// Sends the waiting transactions. Never ends.
    pub(super) async fn send_batches(&self, batches: Batches) {
        let send = |txn| {
            let link = self.clone();
            async move { link.txn(txn).await }
        };
        batches.send_by(send).await
    }

    pub(super) async fn grant(&self, ttl: i64) -> Result<i64, LinkError> {
        self.member.grant(ttl).await.inspect_err(|error| self.report(error))
    }

    /// Ends the session, and with it all its remaining places.
    pub(super) async fn end_session(&self) -> Result<(), LinkError> {
        self.member.revoke(self.epoch.lease).await
    }

    /// Whether the connection will be replaced. Until then, a release must not be sent over it: it could overtake the
    /// acquisition without a reply that it undoes.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Reports a failure of the connection.
    pub(super) fn report(&self, error: &LinkError) {
        if error.connection == Connection::IsReplaced {
            self.has_failed.store(true, Ordering::Release);
            // The supervisor may have dropped the connection already.
            drop(self.reporter.send(error.clone()));
        }
    }
}

/// The permanent watch.
pub(super) struct Watch {
    stream: WatchStream,
    member: Member,
}

impl Watch {
    /// The names of deleted keys, with the revisions of the deletions.
    pub(super) async fn next(&mut self) -> Result<Vec<(Vec<u8>, i64)>, LinkError> {
        let said = match self.stream.message().await {
            Ok(Some(said)) => said,
            Ok(None) => return Err(self.member.unexpected("the watch has ended")),
            Err(error) => return Err(self.member.error(&error)),
        };
        if said.canceled() {
            let reason = match (said.cancel_reason(), said.compact_revision()) {
                ("", 0) => "the watch was cancelled".to_owned(),
                ("", revision) => {
                    format!("what the watch has missed was compacted, up to revision {revision}")
                }
                (reason, _) => reason.to_owned(),
            };
            return Err(LinkError::of_cancelled_watch(&reason, &self.member.place, &self.member.all));
        }
        let deleted = said.events().iter().filter_map(|event| event.kv());
        Ok(deleted.map(|kv| (kv.key().to_vec(), kv.mod_revision())).collect())
    }
}

/// Keeps the session alive.
pub(super) struct KeepAlive {
    keeper: LeaseKeeper,
    stream: LeaseKeepAliveStream,
    member: Member,
    epoch: Epoch,
}

/// The result of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// The lease lasts for this long, counted from before the heartbeat was sent.
    Alive(Duration),
    /// There was an election meanwhile, so the member that replied may no longer have been the leader.
    Undecided,
}

impl KeepAlive {
    /// Keeps the lease alive, and asks the majority who the leader is. A leader that was paused or cut off still
    /// replies to a keep-alive from its own memory for a while, although another leader was elected, which does not
    /// know of the keep-alive. So the reply counts only if the term before it is the same as after a read that the
    /// majority confirmed.
    pub(super) async fn beat(&mut self) -> Result<Beat, LinkError> {
        let member = self.member.clone();
        let keep_alive = async {
            self.keeper.keep_alive().await?;
            self.stream.message().await
        };
        let kept = member.answer(keep_alive).await?;
        let kept = kept.ok_or_else(|| member.unexpected("the stream of keep-alives has ended"))?;
        let Some(ttl) = lasting(kept.ttl()) else {
            let text = format!("the session with {} has ended: its lease is gone", member.place);
            return Err(LinkError { lease_is_gone: true, ..LinkError::later(text) });
        };
        let mut client = member.kv();
        let read = member.answer(client.get(&*self.epoch.name, None)).await?;
        if read.kvs().first().map(|kv| kv.mod_revision()) != Some(self.epoch.revision) {
            return Err(member.unexpected("the key of the session was written or deleted by another program"));
        }
        let term = |header: Option<&etcd_client::ResponseHeader>| header.map(|header| header.raft_term());
        Ok(match (term(kept.header()), term(read.header())) {
            (Some(before), Some(after)) if before == after => Beat::Alive(ttl),
            _ => Beat::Undecided,
        })
    }
}

/// How long a lease with this ttl, in seconds, lasts. `None`: it no longer exists. A ttl that no clock can represent is
/// limited to the largest time.
pub(super) fn lasting(ttl: i64) -> Option<Duration> {
    let seconds = u32::try_from(ttl.max(0)).unwrap_or(u32::MAX);
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EtcdStore;
    use crate::batching::batcher;
    use distlock_store::kit::connection::ConnectionOptions;

    #[tokio::test]
    async fn nothing_is_sent_over_a_connection_that_will_be_replaced() {
        let store = EtcdStore::new("etcd://127.0.0.1:1", &ConnectionOptions::default()).unwrap();
        // The client connects with the first command.
        let member = Member::connect(&store.config, "127.0.0.1:1").await.unwrap();
        let epoch = Epoch { name: String::new(), revision: 1, lease: 1 };
        let (reporter, mut reported) = mpsc::unbounded_channel();
        let link = member.into_link(epoch, batcher().0, reporter);
        *store.link.lock() = Some(link.clone());
        let replaced = LinkError::unknown("no answer");
        link.report(&LinkError { connection: Connection::GoesOn, ..replaced.clone() });
        assert!(store.linked().is_ok() && reported.try_recv().is_err());
        link.report(&replaced);
        assert!(store.linked().is_err() && reported.try_recv().is_ok());
    }
}
