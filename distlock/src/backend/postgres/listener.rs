//! The connection that listens: one for the process, whatever it waits for.
//!
//! Its channel is new with every connection, and so is the advisory lock that this session holds: while it is held,
//! somebody hears what is told by the channel. The server passes over waiters that nobody would hear of.

use std::future::poll_fn;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::dial::{Connection, Notification, dial};
use super::errors::{self, Moment};
use super::grants::Grants;
use super::link::lock;
use super::url::{PostgresConfig, Server};
use crate::store::{StoreError, StoreEvents};

/// A notification that does not come within this time does not come at all.
const HEARD_WITHIN: Duration = Duration::from_secs(2);
const TEST: &str = "test";

#[derive(Debug)]
pub(super) struct Listener {
    connection: Connection,
    pub(super) channel: i64,
    notifications: Mutex<mpsc::UnboundedReceiver<Notification>>,
}

impl Listener {
    /// Listens, and makes sure that what `teller` tells is heard.
    pub(super) async fn open(
        config: &PostgresConfig,
        server: &Server,
        teller: &Client,
    ) -> Result<Self, StoreError> {
        let (sender, notifications) = mpsc::unbounded_channel();
        let connection = dial(config, server, Some(sender)).await?;
        let channel = new_channel()?;
        let listener = Listener { connection, channel, notifications: Mutex::new(notifications) };
        let limit = config.connect_timeout + HEARD_WITHIN;
        let begun = timeout(limit, listener.begin(teller)).await;
        begun.unwrap_or_else(|_| Err(StoreError::not_sent(format!("no answer within {limit:?}"))))?;
        Ok(listener)
    }

    async fn begin(&self, teller: &Client) -> Result<(), StoreError> {
        let failed = |error| errors::of(&error, Moment::Connecting);
        let (client, channel) = (&self.connection.client, name(self.channel));
        client.batch_execute(&format!("LISTEN {channel}")).await.map_err(failed)?;
        let note: [(&(dyn ToSql + Sync), Type); 2] = [(&channel, Type::TEXT), (&TEST, Type::TEXT)];
        teller.query_typed("SELECT pg_notify($1, $2)", &note).await.map_err(failed)?;
        let heard = async {
            while let Some(note) = self.hear().await {
                if note.channel == channel && note.payload == TEST {
                    return;
                }
            }
            std::future::pending().await
        };
        if timeout(HEARD_WITHIN, heard).await.is_err() {
            return Err(StoreError::refused(
                "what the database notifies is not heard: behind a pooler, name the server itself by `listen=` (the \
                 same database, percent-encoded), or let waiters poll by `listen=off`",
            ));
        }
        // Only now: a pooler would keep it after we have gone.
        let lock =
            client.query_typed_one("SELECT pg_try_advisory_lock($1)", &[(&self.channel, Type::INT8)]).await;
        match lock.and_then(|row| row.try_get(0)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::not_sent("the number of the channel is in use")),
            Err(error) => Err(failed(error)),
        }
    }

    /// Passes on what is heard, until the connection ends; says why.
    pub(super) async fn listen(&self, grants: &Grants, events: &StoreEvents) -> StoreError {
        let hear = async {
            while let Some(note) = self.hear().await {
                grants.heard(&note.payload, events);
            }
            std::future::pending().await
        };
        tokio::select! {
            cause = self.connection.ended() => cause,
            cause = hear => cause,
        }
    }

    async fn hear(&self) -> Option<Notification> {
        poll_fn(|cx| lock(&self.notifications).poll_recv(cx)).await
    }

    /// Whether the connection is alive.
    pub(super) async fn check(&self, patience: Duration) -> Result<(), StoreError> {
        match timeout(patience, self.connection.client.query_typed("SELECT", &[])).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(errors::of(&error, Moment::Asking)),
            Err(_) => Err(StoreError::unknown("the connection that listens does not answer")),
        }
    }
}

/// As the functions in the database call it.
fn name(channel: i64) -> String {
    format!("distlock_{channel}")
}

/// A number that nobody else has.
fn new_channel() -> Result<i64, StoreError> {
    let random =
        getrandom::u64().map_err(|error| StoreError::not_sent(format!("no random number: {error}")))?;
    Ok(i64::try_from(random >> 1).unwrap_or(i64::MAX))
}
