//! Keeps a connection to one of the members, and receives its reports.
//!
//! A connection is up when the watch is established, the session's key was written over it, and a heartbeat was
//! answered. After that write, no command of an earlier connection can be executed. At the first error, the connection
//! is dropped and another member is tried, because a stopped member keeps its connections and does not reply.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::EtcdStore;
use super::batching::{Batches, batcher};
use super::errors::LinkError;
use super::keys::PlaceName;
use super::link::{KeepAlive, Link, Member, Watch};
use super::session::Session;
use super::transactions::Epoch;
use super::waiting::News;
use distlock_store::kit::backoff::Backoff;
use distlock_store::{EarlierCommands, Grant, StoreEvents};

/// The members, in the order in which this process tries them.
struct Members {
    addresses: Vec<String>,
    next: usize,
}

impl Members {
    /// In an order that differs between processes, so that not all of them connect to the same member.
    fn new(addresses: &[String]) -> Self {
        let mut addresses = addresses.to_vec();
        fastrand::shuffle(&mut addresses);
        Members { addresses, next: 0 }
    }

    fn next(&mut self) -> String {
        let address = self.addresses.get(self.next).cloned().unwrap_or_default();
        self.next = (self.next + 1) % self.addresses.len().max(1);
        address
    }
}

/// A connection that is up.
struct Established {
    link: Link,
    watch: Watch,
    keep_alive: KeepAlive,
    batches: Batches,
    interval: Duration,
    link_errors: mpsc::UnboundedReceiver<LinkError>,
}

impl EtcdStore {
    pub(super) async fn supervise(&self, events: &StoreEvents) {
        let mut members = Members::new(&self.config.members);
        let name = self.config.names.session(events.client());
        let mut session = Session::new(name, self.config.session_timeout);
        let mut backoff = Backoff::default();
        loop {
            let address = members.next();
            let error = match self.establish(&address, &mut session, events).await {
                Ok(established) => {
                    backoff = Backoff::default();
                    self.serve(established, &mut session, events).await
                }
                Err(error) => error,
            };
            if error.lease_is_gone {
                session.is_lost(events);
            }
            events.down(error.store);
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn establish(
        &self,
        address: &str,
        session: &mut Session,
        events: &StoreEvents,
    ) -> Result<Established, LinkError> {
        let attempt = async {
            let member = Member::connect(&self.config, address).await?;
            let watch = member.watch().await?;
            let epoch = session.resume(&member, events).await?;
            let mut keep_alive = member.keep_alive(&epoch).await?;
            let interval = session.first_beat(&mut keep_alive, events).await?;
            let (reporter, link_errors) = mpsc::unbounded_channel();
            let (batcher, batches) = batcher();
            let link = member.into_link(epoch, batcher, reporter);
            Ok(Established { link, watch, keep_alive, batches, interval, link_errors })
        };
        let most = self.config.connect_timeout;
        let silence =
            || LinkError::unknown(format!("etcd at {address} cannot be used: no answer within {most:?}"));
        timeout(most, attempt).await.unwrap_or_else(|_| Err(silence()))
    }

    /// Serves until an error occurs.
    async fn serve(
        &self,
        established: Established,
        session: &mut Session,
        events: &StoreEvents,
    ) -> LinkError {
        let Established { link, watch, keep_alive, batches, interval, mut link_errors } = established;
        let epoch = link.epoch.clone();
        self.seats.lock().begin(epoch.lease);
        *self.link.lock() = Some(link.clone());
        events.up(EarlierCommands::Ended);
        let error = tokio::select! {
            error = link_errors.recv() => error.unwrap_or_else(|| LinkError::unknown("the connection was closed")),
            error = self.hear(watch, &epoch, events) => error,
            error = session.keep_alive(keep_alive, interval, events) => error,
            () = link.send_batches(batches) => LinkError::unknown("no more batches are sent"),
        };
        *self.link.lock() = None;
        self.waiting.lock().clear();
        error
    }

    /// Notifies the waiters that the place before them is gone.
    async fn hear(&self, mut watch: Watch, epoch: &Epoch, events: &StoreEvents) -> LinkError {
        loop {
            let deleted = match watch.next().await {
                Ok(deleted) => deleted,
                Err(error) => return error,
            };
            // This comes first. With a session, all of its places end at one revision, and no waiter of this process
            // gets its turn by that. A server may end a session that was kept alive: leaders that had been stopped did.
            if deleted.iter().any(|(name, revision)| ends_session(epoch, name, *revision)) {
                let text = format!("{}: the session's key is gone", self.config.describe());
                return LinkError { lease_is_gone: true, ..LinkError::later(text) };
            }
            for (name, revision) in &deleted {
                if let Some(PlaceName { key, seat }) = self.config.names.read(name) {
                    let news = self.waiting.lock().gone(&key, &seat, *revision);
                    for (owner, news) in news {
                        events.granted(&key, &owner, grant(news, *revision));
                    }
                }
            }
        }
    }
}

/// The watch is older than the session's key. So it also reports that this process ended its former session, whose key
/// had the same name.
fn ends_session(epoch: &Epoch, deleted: &[u8], revision: i64) -> bool {
    deleted == epoch.name.as_bytes() && revision > epoch.revision
}

/// A place stays first until it is deleted, that is, as long as the session lives. So the grant does not age. The
/// revision at which the place before it was deleted is higher than all fencing tokens of the lock.
fn grant(news: News, revision: i64) -> Grant {
    match (news, u64::try_from(revision)) {
        (News::First, Ok(revision)) => Grant::new().fence(revision).at_most_old(Duration::ZERO),
        (News::PlaceLost, _) | (News::First, Err(_)) => Grant::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_deletion_after_the_key_was_written_ends_the_session() {
        let epoch = Epoch { name: "distlock/sessions/a".to_owned(), revision: 7, lease: 1 };
        // Revision 6: `Session::resume` has revoked the lease of the former session.
        let cases = [(&*epoch.name, 6, false), (&epoch.name, 8, true), ("other", 8, false)];
        for (name, revision, ends) in cases {
            assert_eq!(ends_session(&epoch, name.as_bytes(), revision), ends, "{name} at {revision}");
        }
    }
}
