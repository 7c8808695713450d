//! Keeps a session, and begins another one when it is over.
//!
//! When a connection is lost, or its member hears of the others no more, the session goes on at another member, and
//! nothing is sent twice. What was sent over the former connection is carried out before the first answer over the next
//! one, or never: a member ends a session's former connection, and the leader refuses what arrives from the member that
//! had the session before.

use std::time::Duration;

use tokio::time::timeout;

use super::session::{Ended, Session};
use super::{Link, ZooKeeperStore, members};
use crate::backoff::Backoff;
use crate::store::{EarlierCommands, StoreError, StoreEvents};

impl ZooKeeperStore {
    pub(super) async fn supervise(&self, events: &StoreEvents) {
        let mut backoff = Backoff::default();
        loop {
            let cause = match self.begin(events).await {
                Ok(session) => {
                    backoff = Backoff::default();
                    let cause = self.serve(session, events).await;
                    let _had_some: bool = self.places().clear();
                    events.session_lost();
                    cause
                }
                Err(cause) => cause,
            };
            events.down(cause);
            tokio::time::sleep(backoff.next()).await;
        }
    }

    async fn begin(&self, events: &StoreEvents) -> Result<Session, StoreError> {
        let most: Duration = self.config.connect_timeout;
        timeout(most, Session::begin(&self.config, events)).await.unwrap_or_else(|_| {
            let describe = self.config.describe();
            Err(StoreError::unknown(format!("{describe} cannot be used: no session within {most:?}")))
        })
    }

    /// Until the session is over. Returns why.
    async fn serve(&self, mut session: Session, events: &StoreEvents) -> StoreError {
        loop {
            *self.link() = Some(Link::new(&session, self.place(), events));
            events.up(EarlierCommands::Ended);
            let ended = session.keep_alive(&self.config, events).await;
            *self.link() = None;
            self.places().watch_nothing();
            match ended {
                Ended::Session(cause) => {
                    // The server may not know that it is over.
                    let (config, left) = (self.config.clone(), session.line.leave());
                    tokio::spawn(async move { members::end(&config, left.session).await });
                    return cause;
                }
                Ended::Connection(cause) => events.down(cause),
            }
            session = match session.move_on(&self.config, events).await {
                Ok(session) => session,
                Err(cause) => return cause,
            };
        }
    }
}
