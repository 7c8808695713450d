//! Keeps a connection to one of the members, and hears what it reports.
//!
//! A connection is up when the watch stands, the session's key was written over it (so that nothing that earlier
//! connections sent can be carried out any more) and a heartbeat was answered. It is given up at the first sign of
//! trouble, and another member is tried: one that is stopped keeps its connections and answers nothing.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::EtcdStore;
use super::errors::Trouble;
use super::keys::PlaceName;
use super::link::{Heart, Link, Member, Watch};
use super::session::Session;
use super::together::{Batches, together};
use super::waiting::News;
use distlock_store::kit::backoff::Backoff;
use distlock_store::{EarlierCommands, Grant, StoreEvents};

/// The members, in the order in which this process tries them.
struct Members {
    addresses: Vec<String>,
    next: usize,
}

impl Members {
    /// In an order of our own, so that not all processes connect to the same one.
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
    heart: Heart,
    batches: Batches,
    interval: Duration,
    troubles: mpsc::UnboundedReceiver<Trouble>,
}

impl EtcdStore {
    pub(super) async fn supervise(&self, events: &StoreEvents) {
        let mut members = Members::new(&self.config.members);
        let name = self.config.names.session(events.client());
        let mut session = Session::new(name, self.config.session_timeout);
        let mut backoff = Backoff::default();
        loop {
            let address = members.next();
            let trouble = match self.establish(&address, &mut session, events).await {
                Ok(established) => {
                    backoff = Backoff::default();
                    self.serve(established, &mut session, events).await
                }
                Err(trouble) => trouble,
            };
            if trouble.lease_is_gone {
                session.is_lost(events);
            }
            events.down(trouble.error);
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn establish(
        &self,
        address: &str,
        session: &mut Session,
        events: &StoreEvents,
    ) -> Result<Established, Trouble> {
        let attempt = async {
            let member = Member::connect(&self.config, address).await?;
            let watch = member.watch().await?;
            let epoch = session.resume(&member, events).await?;
            let mut heart = member.keep_alive(&epoch).await?;
            let interval = session.first_beat(&mut heart, events).await?;
            let (heard, troubles) = mpsc::unbounded_channel();
            let (together, batches) = together();
            let link = member.into_link(epoch, together, heard);
            Ok(Established { link, watch, heart, batches, interval, troubles })
        };
        let most = self.config.connect_timeout;
        let silence =
            || Trouble::unknown(format!("etcd at {address} cannot be used: no answer within {most:?}"));
        timeout(most, attempt).await.unwrap_or_else(|_| Err(silence()))
    }

    /// Until something is wrong.
    async fn serve(&self, established: Established, session: &mut Session, events: &StoreEvents) -> Trouble {
        let Established { link, watch, heart, batches, interval, mut troubles } = established;
        let name = link.epoch.name.clone();
        *self.link() = Some(link.clone());
        events.up(EarlierCommands::Ended);
        let trouble = tokio::select! {
            trouble = troubles.recv() => trouble.unwrap_or_else(|| Trouble::unknown("the connection was closed")),
            trouble = self.hear(watch, &name, events) => trouble,
            trouble = session.keep_alive(heart, interval, events) => trouble,
            () = link.send_batches(batches) => Trouble::unknown("no more batches are sent"),
        };
        *self.link() = None;
        self.waiting().clear();
        trouble
    }

    /// Tells those who wait that the one before them has gone.
    async fn hear(&self, mut watch: Watch, session: &str, events: &StoreEvents) -> Trouble {
        loop {
            let deleted = match watch.next().await {
                Ok(deleted) => deleted,
                Err(trouble) => return trouble,
            };
            // First: with a session all of its places end at one revision, and none of them is anybody's turn.
            // A server may end a session that was kept alive: leaders that were stopped have done that.
            if deleted.iter().any(|(name, _)| name == session.as_bytes()) {
                let text = format!("{}: the session's key is gone", self.config.describe());
                return Trouble { lease_is_gone: true, ..Trouble::later(text) };
            }
            for (name, revision) in &deleted {
                if let Some(PlaceName { key, owner }) = self.config.names.read(name) {
                    let news = self.waiting().gone(&key, &owner, *revision);
                    for (owner, news) in news {
                        events.granted(&key, &owner, grant(news, *revision));
                    }
                }
            }
        }
    }
}

/// A place stays first until it is deleted itself, and so as long as the session lives: the grant does not age. The
/// revision at which the one before it was deleted is above all that were handed out for the lock.
fn grant(news: News, revision: i64) -> Grant {
    match (news, u64::try_from(revision)) {
        (News::First, Ok(revision)) => Grant::new().fence(revision).at_most_old(Duration::ZERO),
        (News::PlaceLost, _) | (News::First, Err(_)) => Grant::new(),
    }
}
