//! One connection for commands, as long as it lasts.
//!
//! The first poll of a request fixes its place in the order of execution. A request always becomes ready:
//! with an error if the connection ends or is given up. It needs neither a runtime where it is polled nor a
//! timer, because the supervisor watches the connection as a whole.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, unconstrained};

use super::doze::Doze;
use super::first_reply;
use super::login::{Login, Shown};
use super::stream::{Pulse, Stream};
use crate::backend::OpError;

/// The length of the queue in front of the socket. Effectively unbounded: a request that waits for space
/// would have no fixed place in the order. The supervisor limits its growth, because it drops a stalled link.
const QUEUE: usize = 1 << 20;

/// A connection for commands.
#[derive(Debug)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    pub(super) pulse: Arc<Pulse>,
    doze: Doze,
    /// Wakes the supervisor.
    pub(super) nudge: Notify,
    fault: OnceLock<OpError>,
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

/// Logs in over `stream` and starts the tasks that serve the connection.
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
    let config = config.set_response_timeout(None).set_pipeline_buffer_size(QUEUE);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&shown.settings, stream, config).await?;
    let driver = tokio::spawn(driver);
    let renewal = shown.renew_at.map(|at| tokio::spawn(login.clone().keep(connection.clone(), Some(at))));
    Ok((connection, Driver(driver, renewal)))
}

impl Link {
    pub(super) fn new(connection: MultiplexedConnection, pulse: Arc<Pulse>) -> Link {
        Link { connection, pulse, doze: Doze::new(), nudge: Notify::new(), fault: OnceLock::new() }
    }

    /// Sends one command.
    pub(super) async fn request(&self, cmd: &Cmd) -> RedisResult<Value> {
        let _flight = Flight::begin(self);
        let mut connection = self.connection.clone();
        let mut sending = pin!(connection.send_packed_command(cmd));
        poll_fn(|cx| self.poll(sending.as_mut(), cx)).await
    }

    /// Sends many commands in one write. Returns one value for each; error replies are values.
    pub(super) async fn request_all(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let _flight = Flight::begin(self);
        let mut connection = self.connection.clone();
        let mut sending = pin!(connection.send_packed_commands(pipeline, 0, pipeline.len()));
        poll_fn(|cx| self.poll(sending.as_mut(), cx)).await
    }

    /// Sends a PING. Any reply proves that the server is alive. Not counted as a request.
    pub(super) async fn ping(&self) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        let ping = redis::cmd("PING");
        let mut sending = pin!(connection.send_packed_command(&ping));
        poll_fn(|cx| self.poll(sending.as_mut(), cx)).await
    }

    fn poll<T>(
        &self,
        sending: Pin<&mut impl Future<Output = RedisResult<T>>>,
        cx: &mut Context<'_>,
    ) -> Poll<RedisResult<T>> {
        // On a busy runtime, cooperative scheduling would delay the first poll, and with it the place in the
        // queue.
        match pin!(unconstrained(sending)).poll(cx) {
            // The request may have entered the queue while it was emptied for the last time.
            Poll::Pending if self.pulse.has_ended() => {
                Poll::Ready(Err(RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe))))
            }
            poll => poll,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.doze.in_flight()
    }

    /// Asks for a nudge at the next request. False if a request is under way already.
    pub(super) fn doze(&self) -> bool {
        self.doze.doze()
    }

    /// Reports, from any thread, that this link must be replaced.
    pub(super) fn give_up(&self, why: OpError) {
        // The first reason is the one to report.
        if self.fault.set(why).is_ok() {
            self.nudge.notify_one();
        }
    }

    /// Why the link was given up, if it was.
    pub(super) fn fault(&self) -> Option<&OpError> {
        self.fault.get()
    }
}

/// One request under way.
struct Flight<'a>(&'a Link);

impl<'a> Flight<'a> {
    fn begin(link: &'a Link) -> Flight<'a> {
        if link.doze.begin() {
            link.nudge.notify_one();
        }
        Flight(link)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.doze.end();
    }
}
