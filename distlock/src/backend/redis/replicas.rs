//! Acquisitions and renewals that count only once a number of replicas have them.
//!
//! WAIT blocks its connection, and counts the replicas that have what *that* connection has written. So it is sent on a
//! separate connection, after a write that leaves no data. In the server's one ordered stream this write is later than
//! every command that was answered before, so a replica that has the write has the effects of those commands, too. A
//! request that comes while a round is in progress joins the next round.
//!
//! An acquisition without a confirmation may exist on the server. It fails as [`Failure::Unknown`], and the engine asks
//! again or releases it, even if its lease has expired meanwhile. A grant without a confirmation is not delivered, and
//! the waiter's own heartbeat asks for it.
//!
//! A renewal without a confirmation fails, too, and the engine repeats it until the lease ends. Otherwise a master that
//! is cut off from its replicas would keep its holder, while a promoted replica grants the lock again. If the renewal
//! was applied, the master only keeps the key for longer than the holder relies on it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisError, ServerError, Value, cmd};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::config::RedisConfig;
use super::endpoint::Endpoint;
use super::link::{self, Driver, Link};
use super::stream::{Liveness, Stream};
use super::{errors, info};
use crate::backend::{Failure, OpResult, StoreError};
use crate::contained::with_contained_waker;
use distlock_store::kit::backoff::Backoff;

/// The longest pause between two attempts to connect within one round.
const LONGEST_CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How long the server keeps the written key if the connection breaks right after the write.
const MARK_TTL: Duration = Duration::from_secs(1);
/// The most requests that share a round.
const MAX_REQUESTS_PER_ROUND: usize = 1 << 16;

type ConfirmationSender = oneshot::Sender<Result<(), StoreError>>;

/// Requests for confirmation. [`Replicas::serve`] answers them.
#[derive(Debug)]
pub(super) struct Replicas {
    count: u32,
    /// How long one round may take on the server.
    limit: Duration,
    ask: mpsc::UnboundedSender<ConfirmationSender>,
    /// Locked as long as [`Replicas::serve`] runs.
    asked: Mutex<mpsc::UnboundedReceiver<ConfirmationSender>>,
}

/// A connection used only for confirmations.
struct Line {
    connection: MultiplexedConnection,
    _driver: Driver,
    at: Endpoint,
}

impl Replicas {
    /// `None`: no confirmations are configured.
    pub(super) fn new(config: &RedisConfig) -> Option<Replicas> {
        let (ask, asked) = mpsc::unbounded_channel();
        let asked = Mutex::new(asked);
        (config.replicas > 0).then(|| Replicas {
            count: config.replicas,
            // To the server, zero means "no limit".
            limit: config.op_timeout.max(Duration::from_millis(1)),
            ask,
            asked,
        })
    }

    /// Passes on the reply of `link`. A reply that promises a lease is passed on as soon as it is confirmed.
    pub(super) async fn confirm_replicated<T>(
        &self,
        link: &Link,
        result: OpResult<T>,
        promises: impl Fn(&T) -> bool,
    ) -> OpResult<T> {
        let is_promise = result.as_ref().is_ok_and(promises);
        if is_promise { self.confirm(link).await.and(result) } else { result }
    }

    /// The same for many replies.
    pub(super) async fn confirm_all_replicated<T>(
        &self,
        link: &Link,
        mut results: Vec<OpResult<T>>,
        promises: impl Fn(&T) -> bool,
    ) -> Vec<OpResult<T>> {
        let is_promise = |result: &OpResult<T>| result.as_ref().is_ok_and(&promises);
        if results.iter().any(is_promise)
            && let Err(error) = self.confirm(link).await
        {
            for result in results.iter_mut().filter(|result| is_promise(result)) {
                *result = Err(error.clone());
            }
        }
        results
    }

    /// Returns once everything that was answered over `link` before is confirmed. Needs no runtime.
    pub(super) async fn confirm(&self, link: &Link) -> Result<(), StoreError> {
        let (ask, answer) = oneshot::channel();
        let ended = || Err(errors::found(Failure::Unknown, "the manager ended before replicas had the lock"));
        if self.ask.send(ask).is_err() {
            return ended();
        }
        with_contained_waker(answer).await.unwrap_or_else(|_| ended())?;
        // Otherwise the confirmation may come from another server than the one that `link` leads to.
        if link.liveness.has_ended() {
            return Err(errors::found(
                Failure::Unknown,
                "the connection broke before enough replicas had the lock",
            ));
        }
        Ok(())
    }

    /// Answers requests until it is dropped. `at`: where the link leads, while there is one.
    pub(super) async fn serve(
        &self,
        config: &RedisConfig,
        mark: &str,
        at: impl Fn() -> Option<Endpoint> + Send + Sync,
    ) {
        let mut asked = self.asked.lock().await;
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SET").arg(mark).arg("").arg("PX").arg(MARK_TTL.as_millis());
        pipeline.cmd("DEL").arg(mark);
        pipeline.cmd("WAIT").arg(self.count).arg(self.limit.as_millis());
        let (mut line, mut waiting) = (None, Vec::new());
        while asked.recv_many(&mut waiting, MAX_REQUESTS_PER_ROUND).await > 0 {
            let mut failure = None;
            let round = self.round(&mut line, &mut failure, config, &pipeline, &at);
            let answer = timeout(self.limit * 2, round).await.unwrap_or_else(|_| {
                line = None;
                Err(failure.unwrap_or_else(|| {
                    let text = format!("no answer about the replicas within {:?}", self.limit * 2);
                    errors::found(Failure::Unknown, text)
                }))
            });
            for ask in waiting.drain(..) {
                // The requester was dropped, so no caller needs the reply.
                drop(ask.send(answer.clone()));
            }
        }
    }

    /// One confirmation, over a new connection if the old one is broken. `failure`: why there is none yet.
    async fn round(
        &self,
        line: &mut Option<Line>,
        failure: &mut Option<StoreError>,
        config: &RedisConfig,
        pipeline: &Pipeline,
        at: &(impl Fn() -> Option<Endpoint> + Send + Sync),
    ) -> Result<(), StoreError> {
        let mut backoff = Backoff::up_to(LONGEST_CONNECT_PAUSE);
        loop {
            let Some(at) = at() else {
                return Err(errors::found(
                    Failure::Unknown,
                    "the connection broke before any replica was asked",
                ));
            };
            line.take_if(|line| line.at.is_elsewhere(&at));
            let error = match self.attempt(line, config, pipeline, &at).await {
                Ok(values) => return self.judge(&values),
                Err(error) => error,
            };
            *line = None;
            *failure = Some(errors::unanswered(error));
            sleep(backoff.next_pause()).await;
        }
    }

    async fn attempt(
        &self,
        line: &mut Option<Line>,
        config: &RedisConfig,
        pipeline: &Pipeline,
        at: &Endpoint,
    ) -> Result<Vec<Value>, RedisError> {
        let open = match line {
            Some(open) => open,
            None => line.insert(Line::open(config, at).await?),
        };
        open.connection.send_packed_commands(pipeline, 0, pipeline.len()).await
    }

    fn judge(&self, values: &[Value]) -> Result<(), StoreError> {
        if let Some(error) = info::first_error(values) {
            let told = if values.last().is_some_and(|last| matches!(last, Value::ServerError(_))) {
                unknowable(error)
            } else {
                errors::replied(error.clone())
            };
            return Err(StoreError { kind: Failure::Unknown, ..told });
        }
        let Some(Value::Int(found)) = values.last() else {
            return Err(errors::found(Failure::Unknown, "the server's answer to WAIT is not a number"));
        };
        if *found >= i64::from(self.count) {
            return Ok(());
        }
        let text = format!(
            "{found} of the {} replicas that were requested confirmed the lock within {:?}: bring replicas back, \
             or request fewer (`replicas`)",
            self.count, self.limit
        );
        Err(errors::found(Failure::Unknown, text))
    }
}

impl Line {
    async fn open(config: &RedisConfig, to: &Endpoint) -> Result<Line, RedisError> {
        let stream = Stream::connect(&to.address, &config.tls, Arc::new(Liveness::default())).await?;
        let (mut connection, driver) =
            link::start(&config.login, stream, AsyncConnectionConfig::new()).await?;
        let info = connection.send_packed_command(cmd("INFO").arg("server")).await?;
        let run_id = info::field(info::text(&info), "run_id").map(str::to_owned);
        let at = Endpoint { address: to.address.clone(), run_id };
        if at.is_elsewhere(to) {
            // The server was restarted. The writes of the link are lost, and the link will break.
            return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
        }
        Ok(Line { connection, _driver: driver, at })
    }
}

/// The server refuses WAIT.
pub(super) fn unknowable(error: &ServerError) -> StoreError {
    let reason = RedisError::from(error.clone());
    let text = format!(
        "the server does not report what its replicas have ({reason}): allow `+wait`, or remove `replicas`"
    );
    errors::found(Failure::Refused, text)
}
