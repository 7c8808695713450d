//! Sends commands to the server: the connection, the time-out and the deadline of each.
//!
//! A connection carries one statement at a time, so there are several connections. A caller that finds no free
//! connection waits, in the order of arrival.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mysql_async::prelude::{Protocol, Queryable};
use mysql_async::{Conn, DriverError, Error, QueryResult, Row};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout_at;

use super::errors::{self, Phase};
use super::statements::{CLOCK, Values, column, micros};
use distlock_store::kit::backoff::Backoff;
use distlock_store::kit::sync::Locked;
use distlock_store::{LATE_COMMANDS, StoreError};

/// The maximum time for a command, including its retries.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(4_800);
const _: () = assert!(COMMAND_TIMEOUT.as_millis() < LATE_COMMANDS.as_millis());
/// No statement begins later than this after it was sent, by the server's clock, even if the server or the link was
/// paused for an hour in between.
const NOT_AFTER: Duration = Duration::from_millis(2_500);
/// After that, it waits for at most about a second for each lock that another session keeps: the global one, each
/// table, the row, and the one for the commit (`lock_wait_timeout` and `innodb_lock_wait_timeout` in supervisor.rs,
/// whose minimum on MySQL is a second). Two of these waits end before `LATE_COMMANDS`. If a statement that was given up
/// waits for all, its lock may stay held until its lease expires: see docs/mysql.md. A `NOT_AFTER` that covers all of
/// them would leave less than a second for the way to the server.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const _: () = assert!(NOT_AFTER.as_millis() + 2 * LONGEST_WAIT.as_millis() < LATE_COMMANDS.as_millis());
/// The pause between a conflict and the retry.
const AFTER_CONFLICT: Duration = Duration::from_millis(2);

/// Connections to one server, which are replaced together.
#[derive(Debug)]
pub(super) struct Pool {
    /// The unused connections. The one that was used last is at the end.
    idle: Locked<VecDeque<Idle>>,
    /// One permit for each unused connection.
    turns: Semaphore,
    count: AtomicUsize,
    /// Notified when a caller waits for a connection.
    pub(super) crowded: Notify,
    /// Why all connections must be replaced: one has ended, or does not reply, or may no longer write.
    broken: watch::Sender<Option<StoreError>>,
    /// The time of the server's clock, and when it was read.
    clock: Locked<(Instant, i64)>,
    /// How long a reply may take.
    response_timeout: Duration,
}

struct Idle {
    conn: Conn,
    since: Instant,
}

/// The end of a command's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    end: tokio::time::Instant,
    /// Whether it waits again for a row that stayed locked for a second.
    is_patient: bool,
}

/// The result of a statement.
#[derive(Debug, Default)]
pub(super) struct StatementResult {
    pub(super) rows: Vec<Row>,
    /// The number of rows that matched, changed or not.
    pub(super) affected: u64,
    /// The value that it has passed to LAST_INSERT_ID.
    pub(super) number: Option<u64>,
}

/// A statement. It is written as soon as the time is known after which it is too late.
pub(super) enum Statement<'a> {
    /// A text that is used often, and its parameters.
    Prepared(&'a str, &'a (dyn Fn(i64) -> Values + Sync)),
    /// A text that is used once, with one or several statements. The result is that of the last one that returns rows.
    Text(&'a (dyn Fn(i64) -> String + Sync)),
}

impl Limit {
    pub(super) fn of_a_command() -> Self {
        Limit { end: tokio::time::Instant::now() + COMMAND_TIMEOUT, is_patient: true }
    }

    /// For a command for this many keys. If there are several, and the row of one stays locked, the adapter renews the
    /// leases one by one. So the command reports it at once.
    pub(super) fn of_a_command_for(keys: usize) -> Self {
        Limit { is_patient: keys == 1, ..Limit::of_a_command() }
    }
}

impl Pool {
    /// `clock` is the time of the server's clock, and when it was read.
    pub(super) fn new(conn: Conn, clock: (Instant, i64), response_timeout: Duration) -> Self {
        let pool = Pool {
            idle: Locked::default(),
            turns: Semaphore::new(0),
            count: AtomicUsize::new(0),
            crowded: Notify::new(),
            broken: watch::Sender::new(None),
            clock: Locked::new(clock),
            response_timeout,
        };
        pool.add(conn);
        pool
    }

    pub(super) fn add(&self, conn: Conn) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.give_back(conn, Instant::now());
    }

    /// Executes a statement, and retries it if it lost against another one.
    pub(super) async fn ask(
        &self,
        statement: Statement<'_>,
        limit: Limit,
    ) -> Result<StatementResult, StoreError> {
        let mut pauses = Backoff::beginning_with(AFTER_CONFLICT);
        loop {
            let mut taken = self.take(limit).await?;
            let end = limit.end.min(tokio::time::Instant::now() + self.response_timeout);
            let asked = timeout_at(end, carry_out(&mut taken.conn, &statement, self.not_after())).await;
            match asked {
                Ok(Ok(answer)) => {
                    self.give_back(taken.conn, Instant::now());
                    return Ok(answer);
                }
                Ok(Err(error)) if !error.is_fatal() => {
                    self.give_back(taken.conn, Instant::now());
                    if errors::is_read_only(&error) {
                        // Another server may accept writes by now.
                        return Err(self.fail(errors::of(&error, Phase::Asking)));
                    }
                    let pause = pauses.next_pause();
                    let is_over = errors::is_of_a_row(&error) && !limit.is_patient;
                    if is_over
                        || !errors::is_conflict(&error)
                        || tokio::time::Instant::now() + pause >= limit.end
                    {
                        return Err(errors::of(&error, Phase::Asking));
                    }
                    tokio::time::sleep(pause).await;
                }
                Ok(Err(error)) => return Err(self.fail(errors::of(&error, Phase::Asking))),
                Err(_) => {
                    let silent = StoreError::unknown("the server does not answer");
                    // The connection is dropped here, with its command.
                    if end < limit.end {
                        return Err(self.fail(silent));
                    }
                    // Most of the time had passed before this was sent, so the silence does not prove that the server
                    // has failed.
                    self.is_one_less();
                    return Err(silent);
                }
            }
        }
    }

    /// Executes a statement that is used often.
    pub(super) async fn prepared(
        &self,
        sql: &str,
        values: &(dyn Fn(i64) -> Values + Sync),
        limit: Limit,
    ) -> Result<StatementResult, StoreError> {
        self.ask(Statement::Prepared(sql, values), limit).await
    }

    /// Marks all connections to be replaced for this reason, and returns it.
    fn fail(&self, cause: StoreError) -> StoreError {
        self.broken.send_replace(Some(cause.clone()));
        cause
    }

    /// Becomes ready when all connections must be replaced. Returns the reason.
    pub(super) async fn broken(&self) -> StoreError {
        let mut broken = self.broken.subscribe();
        // The sender lives as long as `self`.
        let cause = broken.wait_for(Option::is_some).await.ok().and_then(|cause| cause.clone());
        cause.unwrap_or_else(|| StoreError::unknown("a connection has ended"))
    }

    /// The number of connections, used and unused.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes an unused connection.
    async fn take(&self, limit: Limit) -> Result<Idle, StoreError> {
        if self.turns.available_permits() == 0 {
            self.crowded.notify_one();
        }
        match timeout_at(limit.end, self.turns.acquire()).await {
            Ok(Ok(turn)) => {
                turn.forget();
                let last = self.idle.lock().pop_back();
                last.ok_or_else(|| StoreError::not_sent("the connections were closed"))
            }
            Ok(Err(_)) => Err(StoreError::not_sent("the connections were closed")),
            Err(_) => Err(StoreError::not_sent("all connections are busy: allow more by `connections=`")),
        }
    }

    /// Takes the connection that has been unused for the longest time, if there is one.
    pub(super) fn take_oldest(&self) -> Option<(Conn, Instant)> {
        let turn = self.turns.try_acquire().ok()?;
        turn.forget();
        self.idle.lock().pop_front().map(|idle| (idle.conn, idle.since))
    }

    pub(super) fn give_back(&self, conn: Conn, since: Instant) {
        let mut idle = self.idle.lock();
        let at = idle.partition_point(|other| other.since <= since);
        idle.insert(at, Idle { conn, since });
        self.turns.add_permits(1);
    }

    /// A connection that was taken will not be returned.
    pub(super) fn is_one_less(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// From now on, no caller gets a connection. Returns the unused ones.
    pub(super) fn close(&self) -> Vec<Conn> {
        self.turns.close();
        self.idle.lock().drain(..).map(|idle| idle.conn).collect()
    }

    /// Records a time that the server's clock showed before now.
    pub(super) fn learn(&self, clock: i64) {
        *self.clock.lock() = (Instant::now(), clock);
    }

    /// The deadline by the server's clock. It is too early by the time that the reply needed, and never too late.
    fn not_after(&self) -> i64 {
        let (learnt, clock) = *self.clock.lock();
        clock.saturating_add(micros(learnt.elapsed() + NOT_AFTER))
    }
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle").field("since", &self.since).finish_non_exhaustive()
    }
}

async fn carry_out(
    conn: &mut Conn,
    statement: &Statement<'_>,
    not_after: i64,
) -> Result<StatementResult, Error> {
    match statement {
        Statement::Prepared(sql, values) => {
            let values = values(not_after);
            all_of(conn.exec_iter(*sql, values).await?).await
        }
        Statement::Text(sql) => {
            let asked = match conn.query_iter(sql(not_after)).await {
                Ok(result) => all_of(result).await,
                Err(error) => Err(error),
            };
            // A transaction on this connection may still be open and lock rows. If the transaction cannot be ended, the
            // connection is closed, which ends it.
            let may_be_open = asked.as_ref().is_err_and(|error| !error.is_fatal());
            if may_be_open && conn.query_drop("ROLLBACK AND NO CHAIN NO RELEASE").await.is_err() {
                return Err(Error::Driver(DriverError::ConnectionClosed));
            }
            asked
        }
    }
}

async fn all_of<P: Protocol>(mut result: QueryResult<'_, '_, P>) -> Result<StatementResult, Error> {
    let mut rows = result.collect().await?;
    while !result.is_empty() {
        let next = result.collect().await?;
        rows = if next.is_empty() { rows } else { next };
    }
    let (affected, number) = (result.affected_rows(), result.last_insert_id());
    result.drop_result().await?;
    Ok(StatementResult { rows, affected, number })
}

/// Reads the server's clock. Also returns when it was read.
pub(super) async fn clock(conn: &mut Conn) -> Result<(Instant, i64), StoreError> {
    let row: Option<Row> =
        conn.query_first(CLOCK).await.map_err(|error| errors::of(&error, Phase::Connecting))?;
    let row = row.ok_or_else(|| StoreError::not_sent("the server does not report its time"))?;
    Ok((Instant::now(), column(&row, 0)?))
}
