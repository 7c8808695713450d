//! One connection for commands, as long as it lasts.
//!
//! The first poll of a request fixes its place in the order of execution. A request always becomes ready. If the
//! connection ends or is dropped, it fails. It needs neither a runtime where it is polled nor a timer, because the
//! supervisor watches the connection as a whole.

use std::sync::{Arc, OnceLock};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisResult, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::connection::Connection;
use super::first_reply;
use super::idle_gate::IdleGate;
use super::login::{Asks, Login, Shown};
use super::stream::{Liveness, Stream};
use crate::backend::StoreError;

/// A connection for commands.
#[derive(Debug)]
pub(super) struct Link {
    connection: Arc<Connection>,
    pub(super) liveness: Arc<Liveness>,
    idle_gate: IdleGate,
    /// Wakes the supervisor.
    pub(super) nudge: Notify,
    fault: OnceLock<StoreError>,
}

/// The task that moves a connection's bytes, and the one that renews its credentials if they expire. Both end
/// with their owner.
#[derive(Debug)]
pub(super) struct Driver(pub(super) JoinHandle<()>, Option<JoinHandle<()>>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
        if let Some(renewal) = &self.1 {
            renewal.abort();
        }
    }
}

/// Logs in over `stream` and starts the tasks that serve a connection for commands of many callers.
pub(super) async fn open(login: &Login, mut stream: Stream) -> RedisResult<(Arc<Connection>, Driver)> {
    first_reply::exchange(&mut stream).await?;
    let Shown { settings, renew_at } = login.shown().await?;
    let connection = Connection::log_in(&settings, stream).await?;
    let driver = tokio::spawn(Arc::clone(&connection).drive());
    let renewal = renew_at.map(|at| tokio::spawn(login.clone().keep(Arc::clone(&connection), Some(at))));
    Ok((connection, Driver(driver, renewal)))
}

/// The same for a connection of one user.
pub(super) async fn start(
    login: &Login,
    mut stream: Stream,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, Driver)> {
    first_reply::exchange(&mut stream).await?;
    log_in(login, login.shown().await?, stream, config).await
}

/// [`start`] after the first reply has been read, with the credentials already known.
pub(super) async fn log_in(
    login: &Login,
    shown: Shown,
    stream: Stream,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, Driver)> {
    let config = config.set_response_timeout(None);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&shown.settings, stream, config).await?;
    let driver = tokio::spawn(driver);
    let renewal = shown.renew_at.map(|at| tokio::spawn(login.clone().keep(connection.clone(), Some(at))));
    Ok((connection, Driver(driver, renewal)))
}

impl Asks for Arc<Connection> {
    async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        self.request(cmd.clone()).await
    }
}

impl Link {
    pub(super) fn new(connection: Arc<Connection>, liveness: Arc<Liveness>) -> Link {
        Link {
            connection,
            liveness,
            idle_gate: IdleGate::new(),
            nudge: Notify::new(),
            fault: OnceLock::new(),
        }
    }

    /// Sends one command.
    pub(super) async fn request(&self, cmd: Cmd) -> RedisResult<Value> {
        let _flight = Flight::begin(self);
        self.connection.request(cmd).await
    }

    /// Sends many commands in one write. Returns one value for each. Error replies are values.
    pub(super) async fn request_all(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let _flight = Flight::begin(self);
        self.connection.request_all(pipeline).await
    }

    /// Sends a command to which any reply proves that the server is alive. Not counted as a request.
    pub(super) async fn probe(&self, cmd: Cmd) -> RedisResult<Value> {
        self.connection.request(cmd).await
    }

    pub(super) fn in_flight(&self) -> usize {
        self.idle_gate.in_flight()
    }

    /// Asks for a nudge at the next request. False if a request is already in progress.
    pub(super) fn may_sleep(&self) -> bool {
        self.idle_gate.may_sleep()
    }

    /// Reports, from any thread, that this link must be replaced.
    pub(super) fn give_up(&self, why: StoreError) {
        // The first reason is the one to report.
        if self.fault.set(why).is_ok() {
            self.nudge.notify_one();
        }
    }

    /// The reason why the link was dropped, if it was.
    pub(super) fn fault(&self) -> Option<&StoreError> {
        self.fault.get()
    }
}

/// One request in progress.
struct Flight<'a>(&'a Link);

impl<'a> Flight<'a> {
    fn begin(link: &'a Link) -> Flight<'a> {
        if link.idle_gate.begin() {
            link.nudge.notify_one();
        }
        Flight(link)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.idle_gate.end();
    }
}
