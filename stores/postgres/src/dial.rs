//! Creates one connection.

use std::future::poll_fn;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Client};

use super::errors::{self, Phase};
use super::tls;
use super::url::{PostgresConfig, Server};
use distlock_store::StoreError;

/// A connection, which is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    /// The reason of its end, as soon as it has ended.
    ended: watch::Receiver<Option<StoreError>>,
    driver: AbortHandle,
}

/// A notification: its channel and its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notification {
    pub(super) channel: String,
    pub(super) payload: String,
}

impl Connection {
    /// Waits until it has ended, and returns the reason.
    pub(super) async fn ended(&self) -> StoreError {
        let mut ended = self.ended.clone();
        let cause = ended.wait_for(Option::is_some).await.ok().and_then(|cause| cause.clone());
        cause.unwrap_or_else(|| StoreError::unknown("the connection was closed"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Connects within the time of the configuration. Notifications of the server go to `notifications`.
pub(super) async fn dial(
    config: &PostgresConfig,
    server: &Server,
    notifications: mpsc::UnboundedSender<Notification>,
) -> Result<Connection, StoreError> {
    let limit = config.connect_timeout;
    let connecting = tokio::time::timeout(limit, connect(config, server, notifications));
    connecting.await.unwrap_or_else(|_| Err(StoreError::not_sent(format!("no connection within {limit:?}"))))
}

async fn connect(
    config: &PostgresConfig,
    server: &Server,
    notifications: mpsc::UnboundedSender<Notification>,
) -> Result<Connection, StoreError> {
    let mut target = server.config.clone();
    if let Some(provider) = &config.credentials {
        let given = provider.ask().await;
        let given = given.map_err(|error| StoreError::not_sent(format!("no credentials: {error}")))?;
        if let Some(user) = given.user {
            target.user(user);
        }
        target.password(given.password);
    }
    // A name in the URL takes precedence.
    if let (Some("distlock"), Some(name)) = (target.get_application_name(), config.connection_name.get()) {
        target.application_name(name);
    }
    let connected = target.connect(tls::connector(&server.tls).await?).await;
    let (client, mut connection) = connected.map_err(|error| errors::of(&error, Phase::Connecting))?;
    let (end, ended) = watch::channel(None);
    let driver = tokio::spawn(async move {
        let cause = loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(note))) => {
                    let (channel, payload) = (note.channel().to_owned(), note.payload().to_owned());
                    // The receiver has ended, so this connection will end, too.
                    drop(notifications.send(Notification { channel, payload }));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => break errors::of(&error, Phase::Asking),
                None => break StoreError::unknown("the connection was closed"),
            }
        };
        end.send_replace(Some(cause));
    });
    Ok(Connection { client, ended, driver: driver.abort_handle() })
}
