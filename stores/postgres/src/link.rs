//! Sends commands to the server: the connection, the time-out and the deadline of each.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Error, Row};

use super::commands::garbled;
use super::dial::Connection;
use super::errors::{self, Phase};
use super::prepared::{Parameter, Prepared};
use super::schema::Functions;
use distlock_store::kit::sync::Locked;
use distlock_store::{LATE_COMMANDS, StoreError};

/// The maximum time to await a command.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(4_800);
const _: () = assert!(COMMAND_TIMEOUT.as_millis() < LATE_COMMANDS.as_millis());
/// No command is executed later than this after it was sent, by the server's clock, even if the server or the link was
/// paused for an hour in between.
const NOT_AFTER: Duration = Duration::from_millis(4_500);
/// After that, it waits for a row for at most this time: `lock_timeout` in tables.sql.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
const _: () = assert!(NOT_AFTER.as_millis() + LOCK_TIMEOUT.as_millis() <= LATE_COMMANDS.as_millis());
/// Reading a reply that has arrived takes at most this time.
const READ_WITHIN: Duration = Duration::from_millis(10);

/// Connections to one server, which are opened and replaced together.
#[derive(Debug)]
pub(super) struct Pool {
    connections: Vec<PooledConnection>,
    /// The time of the server's clock, and when this process read it.
    clock: Locked<(Instant, SystemTime)>,
    /// How long a connection may be silent while a reply is missing.
    response_timeout: Duration,
    /// The channel for notifications of waiters. `None`: there are no notifications.
    pub(super) channel: Option<i64>,
    pub(super) functions: Functions,
    /// The durability of commands, for `settle_1`. `None`: the server's setting.
    pub(super) durability: Option<String>,
    /// The reason to replace them, as soon as there is one.
    broken: watch::Sender<Option<StoreError>>,
}

#[derive(Debug)]
struct PooledConnection {
    connection: Connection,
    prepared: Prepared,
    in_flight: AtomicUsize,
    /// When data last arrived, or when no reply was missing.
    heard: Locked<Instant>,
}

impl Pool {
    /// `clock` is the present time of the server's clock.
    pub(super) fn new(
        connections: Vec<(Connection, Prepared)>,
        clock: SystemTime,
        response_timeout: Duration,
        channel: Option<i64>,
        (functions, durability): (Functions, Option<String>),
    ) -> Self {
        let now = Instant::now();
        let pooled = |(connection, prepared)| PooledConnection {
            connection,
            prepared,
            in_flight: AtomicUsize::new(0),
            heard: Locked::new(now),
        };
        let connections = connections.into_iter().map(pooled).collect();
        let clock = Locked::new((now, clock));
        Pool {
            connections,
            clock,
            response_timeout,
            channel,
            functions,
            durability,
            broken: watch::Sender::new(None),
        }
    }

    /// Executes a statement. Its `$1` is the time after which it is too late, and `parameters` are the others.
    pub(super) async fn ask(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, StoreError> {
        let limit = tokio::time::Instant::now() + COMMAND_TIMEOUT;
        let said = match self.send(sql, parameters, limit).await {
            Some(Err(error)) if errors::is_too_late(&error) => {
                // It has done nothing. The server's clock was set, or this machine slept. So the clock is read, and the
                // command is sent again.
                self.read_clock(limit).await?;
                self.send(sql, parameters, limit).await
            }
            said => said,
        };
        let error = match said {
            Some(Ok(rows)) => return Ok(rows),
            Some(Err(error)) => error,
            None => return Err(StoreError::unknown("the server does not answer")),
        };
        let meaning = errors::of(&error, Phase::Asking);
        if errors::is_of_missing_tables(&error) {
            // The tables are created on connecting. So nothing more is sent on these connections.
            self.broken.send_replace(Some(meaning.clone()));
        }
        Err(meaning)
    }

    /// Executes a statement that returns one value.
    pub(super) async fn value<T>(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<T, StoreError>
    where
        T: for<'a> FromSql<'a>,
    {
        let rows = self.ask(sql, parameters).await?;
        let row = rows.first().ok_or_else(|| garbled("no row"))?;
        row.try_get(0).map_err(|error| garbled(&error.to_string()))
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.borrow().is_some()
    }

    /// Waits until they must be replaced although none has ended, and returns the reason.
    pub(super) async fn broken(&self) -> StoreError {
        let mut broken = self.broken.subscribe();
        let cause = broken.wait_for(Option::is_some).await.ok().and_then(|cause| cause.clone());
        cause.unwrap_or_else(|| StoreError::unknown("the connections are gone"))
    }

    /// Waits until one of them has ended, and returns the reason.
    pub(super) async fn ended(&self) -> StoreError {
        type Ending<'a> = Pin<Box<dyn Future<Output = StoreError> + Send + 'a>>;
        let ending = |one| -> Ending<'_> { Box::pin(PooledConnection::ended(one)) };
        let mut endings: Vec<Ending<'_>> = self.connections.iter().map(ending).collect();
        poll_fn(|cx| {
            let mut polled = endings.iter_mut().map(|ending| ending.as_mut().poll(cx));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Asks each connection for the time.
    pub(super) async fn read_clock(&self, limit: tokio::time::Instant) -> Result<(), StoreError> {
        for connection in &self.connections {
            let said = connection.ask(self, CLOCK, &[], limit).await;
            let row = said.ok_or_else(|| StoreError::unknown("the server does not answer"))?;
            *self.clock.lock() =
                row.and_then(|rows| clock_of(&rows)).map_err(|error| errors::of(&error, Phase::Asking))?;
        }
        Ok(())
    }

    /// Whether a pooler gives each transaction another connection. In that case, the connections of this pool have
    /// changed their server process, or share one.
    pub(super) async fn is_pooled(&self) -> Result<bool, StoreError> {
        let limit = tokio::time::Instant::now() + COMMAND_TIMEOUT;
        let mut processes = HashSet::new();
        for connection in &self.connections {
            let mut before = None;
            for _ in 0..2 {
                let said = connection.ask(self, "SELECT pg_backend_pid()", &[], limit).await;
                let rows = said.ok_or_else(|| StoreError::unknown("the server does not answer"))?;
                let process =
                    rows.and_then(|rows| rows.first().map(|row| row.try_get::<_, i32>(0)).transpose());
                let process = process.map_err(|error| errors::of(&error, Phase::Asking))?;
                if before.is_some() && before != process {
                    return Ok(true);
                }
                before = process;
            }
            if !processes.insert(before) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `None`: no answer.
    async fn send(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        limit: tokio::time::Instant,
    ) -> Option<Result<Vec<Row>, Error>> {
        let (learnt, clock) = *self.clock.lock();
        let not_after = clock + learnt.elapsed() + NOT_AFTER;
        let first: Parameter<'_> = (&not_after, Type::TIMESTAMPTZ);
        let all: Vec<Parameter<'_>> = std::iter::once(first).chain(parameters.iter().cloned()).collect();
        let least = |one: &&PooledConnection| one.in_flight.load(Ordering::Relaxed);
        self.connections.iter().min_by_key(least)?.ask(self, sql, &all, limit).await
    }
}

const CLOCK: &str = "SELECT clock_timestamp()";

fn clock_of(rows: &[Row]) -> Result<(Instant, SystemTime), Error> {
    let now = Instant::now();
    rows.first().map_or(Ok((now, SystemTime::now())), |row| Ok((now, row.try_get(0)?)))
}

/// Reads the server's clock.
pub(super) async fn clock(connection: &Connection) -> Result<SystemTime, StoreError> {
    let rows = connection.client.query_typed(CLOCK, &[]).await;
    let clock = rows.and_then(|rows| clock_of(&rows));
    clock.map(|(_, clock)| clock).map_err(|error| errors::of(&error, Phase::Connecting))
}

impl PooledConnection {
    async fn ended(&self) -> StoreError {
        self.connection.ended().await
    }

    /// `None`: no reply before the limit, or no data at all within the response time-out.
    async fn ask(
        &self,
        all: &Pool,
        sql: &str,
        parameters: &[Parameter<'_>],
        limit: tokio::time::Instant,
    ) -> Option<Result<Vec<Row>, Error>> {
        if self.in_flight.fetch_add(1, Ordering::Relaxed) == 0 {
            *self.heard.lock() = Instant::now();
        }
        let _in_flight = InFlight(self);
        let mut asking = std::pin::pin!(self.prepared.query(&self.connection.client, sql, parameters));
        loop {
            let silent_at =
                tokio::time::Instant::from_std(*self.heard.lock() + all.response_timeout).min(limit);
            let said = timeout(silent_at.saturating_duration_since(tokio::time::Instant::now()), &mut asking);
            let mut said = said.await;
            if said.is_err() {
                // This process may have been paused while the reply waited in its socket. So the reply is read first,
                // perhaps by another thread.
                said = timeout(READ_WITHIN, &mut asking).await;
            }
            if let Ok(said) = said {
                *self.heard.lock() = Instant::now();
                return Some(said);
            }
            if self.heard.lock().elapsed() >= all.response_timeout {
                let cause = StoreError::unknown("the server has stopped answering");
                all.broken.send_replace(Some(cause));
                return None;
            }
            if tokio::time::Instant::now() >= limit {
                return None;
            }
        }
    }
}

/// Counts a command while it lives.
struct InFlight<'a>(&'a PooledConnection);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
