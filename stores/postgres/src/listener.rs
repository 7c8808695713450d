//! The connection that listens: one for the process, for all of its waits.
//!
//! Every connection has a new channel, and its session holds a new advisory lock. While this lock is held, the process
//! receives the notifications of the channel. The server skips waiters whose process would not receive them.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::dial::{Connection, Notification, dial};
use super::errors::{self, Phase};
use super::grants::Grants;
use super::url::{PostgresConfig, Server};
use distlock_store::kit::sync::Locked;
use distlock_store::{StoreError, StoreEvents};

/// A notification that does not come within this time does not come at all.
const HEARD_WITHIN: Duration = Duration::from_secs(2);
const TEST: &str = "test";

#[derive(Debug)]
pub(super) struct Listener {
    connection: Connection,
    pub(super) channel: i64,
    notifications: Locked<Notifications>,
}

/// The notifications of one connection.
pub(super) type Notifications = mpsc::UnboundedReceiver<Notification>;

impl Listener {
    /// Listens, and makes sure that notifications from `teller` arrive.
    pub(super) async fn open(
        config: &PostgresConfig,
        server: &Server,
        teller: &Client,
    ) -> Result<Self, StoreError> {
        let (sender, mut notifications) = mpsc::unbounded_channel();
        let connection = dial(config, server, sender).await?;
        let channel = new_channel()?;
        let begin = Self::begin(&connection.client, &mut notifications, teller, channel);
        in_time(config, begin).await?;
        Ok(Listener { connection, channel, notifications: Locked::new(notifications) })
    }

    async fn begin(
        client: &Client,
        notifications: &mut Notifications,
        teller: &Client,
        channel: i64,
    ) -> Result<(), StoreError> {
        let failed = |error| errors::of(&error, Phase::Connecting);
        if !is_heard(client, notifications, teller, channel).await.map_err(failed)? {
            return Err(StoreError::refused(
                "the notifications of the database do not arrive: behind a pooler, name the server itself \
                 with `listen=` (the same database, percent-encoded), or let waiters poll with `listen=off`",
            ));
        }
        // Not earlier, because a pooler would keep this lock after the process has ended.
        let lock = client.query_typed_one("SELECT pg_try_advisory_lock($1)", &[(&channel, Type::INT8)]).await;
        match lock.and_then(|row| row.try_get(0)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::not_sent("the number of the channel is in use")),
            Err(error) => Err(failed(error)),
        }
    }

    /// Passes on notifications until the connection ends. Returns the reason.
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
        poll_fn(|cx| self.notifications.lock().poll_recv(cx)).await
    }

    /// Whether the connection is alive.
    pub(super) async fn check(&self, response_timeout: Duration) -> Result<(), StoreError> {
        match timeout(response_timeout, self.connection.client.query_typed("SELECT", &[])).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(errors::of(&error, Phase::Asking)),
            Err(_) => Err(StoreError::unknown("the connection that listens does not answer")),
        }
    }

    /// Whether another connection, which is idle during this test, keeps its server session. It does if a notification
    /// that is sent between two of its transactions arrives there. A pooler that lends sessions for one transaction
    /// does not know the receiver of a notification.
    pub(super) async fn finds_a_session(
        &self,
        config: &PostgresConfig,
        client: &Client,
        notifications: &mut Notifications,
    ) -> Result<bool, StoreError> {
        let find = async {
            let channel = new_channel()?;
            let found = async {
                let is_heard = is_heard(client, notifications, &self.connection.client, channel).await?;
                // Every notification wakes every session that listens, on any channel.
                client.batch_execute(&format!("UNLISTEN {}", name(channel))).await?;
                Ok(is_heard)
            };
            found.await.map_err(|error| errors::of(&error, Phase::Connecting))
        };
        in_time(config, find).await
    }
}

/// Listens, and returns whether notifications from `teller` arrive.
async fn is_heard(
    client: &Client,
    notifications: &mut Notifications,
    teller: &Client,
    channel: i64,
) -> Result<bool, tokio_postgres::Error> {
    let channel = name(channel);
    client.batch_execute(&format!("LISTEN {channel}")).await?;
    let note: [(&(dyn ToSql + Sync), Type); 2] = [(&channel, Type::TEXT), (&TEST, Type::TEXT)];
    teller.query_typed("SELECT pg_notify($1, $2)", &note).await?;
    let heard = async {
        while let Some(note) = notifications.recv().await {
            if note.channel == channel && note.payload == TEST {
                return;
            }
        }
        std::future::pending().await
    };
    Ok(timeout(HEARD_WITHIN, heard).await.is_ok())
}

async fn in_time<T>(
    config: &PostgresConfig,
    attempt: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let limit = config.connect_timeout + HEARD_WITHIN;
    let no_answer = |_| Err(StoreError::not_sent(format!("no answer within {limit:?}")));
    timeout(limit, attempt).await.unwrap_or_else(no_answer)
}

/// The name that the functions in the database use.
fn name(channel: i64) -> String {
    format!("distlock_{channel}")
}

/// A unique number.
fn new_channel() -> Result<i64, StoreError> {
    let random =
        getrandom::u64().map_err(|error| StoreError::not_sent(format!("no random number: {error}")))?;
    Ok(i64::try_from(random >> 1).unwrap_or(i64::MAX))
}
