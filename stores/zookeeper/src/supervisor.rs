//! Keeps a session alive, and begins a new one when it is over.
//!
//! If a connection is lost, the client finds another member, and sends nothing twice. Commands on the lost connection
//! are executed before the first reply on the next one, or never: a member ends a session's former connection, and the
//! leader refuses commands from the member that had the session before.

use std::time::Duration;

use tokio::time::timeout;

use super::session::{Session, SessionEnd};
use super::{Link, ZooKeeperStore};
use distlock_store::kit::backoff::Backoff;
use distlock_store::{EarlierCommands, StoreError, StoreEvents};

impl ZooKeeperStore {
    pub(super) async fn supervise(&self, events: &StoreEvents) {
        let mut backoff = Backoff::default();
        loop {
            let cause = match self.begin(events).await {
                Ok(session) => {
                    backoff = Backoff::default();
                    let cause = self.serve(session, events).await;
                    self.places.lock().clear();
                    // If the session still exists on the server, it ends now: the tasks of the tickets no longer keep
                    // its client.
                    self.tickets.lock().clear();
                    events.session_lost();
                    cause
                }
                Err(cause) => cause,
            };
            events.down(cause);
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn begin(&self, events: &StoreEvents) -> Result<Session, StoreError> {
        let most: Duration = self.config.connect_timeout;
        timeout(most, Session::begin(&self.config, events)).await.unwrap_or_else(|_| {
            let describe = self.config.describe();
            Err(StoreError::unknown(format!("{describe} cannot be used: no session within {most:?}")))
        })
    }

    /// Serves until the session is over. Returns the reason.
    async fn serve(&self, mut session: Session, events: &StoreEvents) -> StoreError {
        let mut states = session.client.state_watcher();
        loop {
            *self.link.lock() = Some(Link::new(&session, events));
            events.up(EarlierCommands::Ended);
            let ended = session.keep_alive(&mut states, events).await;
            *self.link.lock() = None;
            self.places.lock().watch_nothing();
            match ended {
                SessionEnd::Session(cause) => return cause,
                SessionEnd::Connection(cause) => events.down(cause),
            }
            if let Err(cause) = session.reconnect(&mut states, events).await {
                return cause;
            }
        }
    }
}
