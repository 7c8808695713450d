//! Sends commands to the server: the connection, the time-out and the deadline of each.
//!
//! A connection carries one statement at a time, so there are several connections. A caller that finds no free
//! connection waits, in the order of arrival.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
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

/// No command is awaited longer, with all its repetitions.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(4_800);
const _: () = assert!(COMMAND_TIMEOUT.as_millis() < LATE_COMMANDS.as_millis());
/// No statement begins later than this after it was sent, by the server's clock, even if the server or the link was
/// paused for an hour in between. It then waits for a row for about a second at most.
const NOT_AFTER: Duration = Duration::from_millis(3_500);
const _: () = assert!(NOT_AFTER.as_millis() + 1_000 < LATE_COMMANDS.as_millis());
/// Between a conflict and the repetition.
const AFTER_CONFLICT: Duration = Duration::from_millis(2);

/// The connections, while there are any.
#[derive(Default)]
pub(super) struct Link {
    pool: Locked<Option<Arc<Pool>>>,
}

/// Connections to one server, which come and go together.
#[derive(Debug)]
pub(super) struct Pool {
    /// Those that are not in use; the one that was used last comes last.
    idle: Locked<VecDeque<Idle>>,
    /// A permit for each of them.
    turns: Semaphore,
    count: AtomicUsize,
    /// A caller waits for a connection.
    pub(super) crowded: Notify,
    /// Why all are to be replaced: one has ended, or does not answer, or may no longer write.
    broken: watch::Sender<Option<StoreError>>,
    /// What the server's clock showed, and when it said so.
    clock: Locked<(Instant, i64)>,
    /// How long an answer may take.
    response_timeout: Duration,
}

struct Idle {
    conn: Conn,
    since: Instant,
}

/// The end of a command's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit(tokio::time::Instant);

/// What a statement has answered.
#[derive(Debug, Default)]
pub(super) struct StatementResult {
    pub(super) rows: Vec<Row>,
    /// Rows that it was about, changed or not.
    pub(super) affected: u64,
    /// What it has told by LAST_INSERT_ID.
    pub(super) number: Option<u64>,
}

/// A statement, to be written when it is known after which time it is too late.
pub(super) enum Statement<'a> {
    /// A text that comes again and again, and its parameters.
    Prepared(&'a str, &'a (dyn Fn(i64) -> Values + Sync)),
    /// A text that comes once: a statement, or several. Of these, the last that has rows answers.
    Text(&'a (dyn Fn(i64) -> String + Sync)),
}

impl Limit {
    pub(super) fn of_a_command() -> Self {
        Limit(tokio::time::Instant::now() + COMMAND_TIMEOUT)
    }
}

impl Link {
    /// Commands go here from now on. `None`: nowhere.
    pub(super) fn set(&self, pool: Option<Arc<Pool>>) {
        *self.pool.lock() = pool;
    }

    /// The connections, if there are any now.
    pub(super) fn pool(&self) -> Result<Arc<Pool>, StoreError> {
        let pool = self.pool.lock().clone();
        pool.ok_or_else(|| StoreError::not_sent("there is no connection to MySQL"))
    }

    /// Asks, and again if the statement lost against another one.
    pub(super) async fn ask(
        &self,
        pool: &Pool,
        statement: Statement<'_>,
        limit: Limit,
    ) -> Result<StatementResult, StoreError> {
        let mut pauses = Backoff::beginning_with(AFTER_CONFLICT);
        loop {
            let mut taken = pool.take(limit).await?;
            let end = limit.0.min(tokio::time::Instant::now() + pool.response_timeout);
            let asked = timeout_at(end, carry_out(&mut taken.conn, &statement, pool.not_after())).await;
            match asked {
                Ok(Ok(answer)) => {
                    pool.give_back(taken.conn, Instant::now());
                    return Ok(answer);
                }
                Ok(Err(error)) if !error.is_fatal() => {
                    pool.give_back(taken.conn, Instant::now());
                    if errors::is_read_only(&error) {
                        // Another server may be the one to write to.
                        return Err(pool.fail(errors::of(&error, Phase::Asking)));
                    }
                    let pause = pauses.next_pause();
                    if !errors::is_conflict(&error) || tokio::time::Instant::now() + pause >= limit.0 {
                        return Err(errors::of(&error, Phase::Asking));
                    }
                    tokio::time::sleep(pause).await;
                }
                Ok(Err(error)) => return Err(pool.fail(errors::of(&error, Phase::Asking))),
                Err(_) => {
                    let silent = StoreError::unknown("the server does not answer");
                    // The connection ends here, with what it was doing.
                    if end < limit.0 {
                        return Err(pool.fail(silent));
                    }
                    // Most of the time has gone before: that says nothing of the server.
                    pool.is_one_less();
                    return Err(silent);
                }
            }
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("is_up", &self.pool.lock().is_some()).finish()
    }
}

impl Pool {
    /// `clock`: what the server's clock showed, and when it said so.
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

    /// All are to be replaced, because of this, which is returned.
    fn fail(&self, cause: StoreError) -> StoreError {
        self.broken.send_replace(Some(cause.clone()));
        cause
    }

    /// Becomes ready when all are to be replaced: why.
    pub(super) async fn broken(&self) -> StoreError {
        let mut broken = self.broken.subscribe();
        // The sender lives as long as this.
        let cause = broken.wait_for(Option::is_some).await.ok().and_then(|cause| cause.clone());
        cause.unwrap_or_else(|| StoreError::unknown("a connection has ended"))
    }

    /// How many there are, in use or not.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The next that is idle.
    async fn take(&self, limit: Limit) -> Result<Idle, StoreError> {
        if self.turns.available_permits() == 0 {
            self.crowded.notify_one();
        }
        match timeout_at(limit.0, self.turns.acquire()).await {
            Ok(Ok(turn)) => {
                turn.forget();
                let last = self.idle.lock().pop_back();
                last.ok_or_else(|| StoreError::not_sent("the connections were closed"))
            }
            Ok(Err(_)) => Err(StoreError::not_sent("the connections were closed")),
            Err(_) => Err(StoreError::not_sent("all connections are busy: allow more by `connections=`")),
        }
    }

    /// The one that has been idle for longest, if there is one.
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

    /// One that was taken out is not returned.
    pub(super) fn is_one_less(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// No caller gets one from now on. Those that are idle are returned.
    pub(super) fn close(&self) -> Vec<Conn> {
        self.turns.close();
        self.idle.lock().drain(..).map(|idle| idle.conn).collect()
    }

    /// The server's clock showed this before now.
    pub(super) fn learn(&self, clock: i64) {
        *self.clock.lock() = (Instant::now(), clock);
    }

    /// By the server's clock: earlier than it might be by the time that the answer took on its way, never later.
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
            // A transaction in it may still be open, and keep rows locked. If the transaction cannot be ended, the
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

/// What the server's clock shows, and when it said so.
pub(super) async fn clock(conn: &mut Conn) -> Result<(Instant, i64), StoreError> {
    let row: Option<Row> =
        conn.query_first(CLOCK).await.map_err(|error| errors::of(&error, Phase::Connecting))?;
    let row = row.ok_or_else(|| StoreError::not_sent("the server does not report its time"))?;
    Ok((Instant::now(), column(&row, 0)?))
}
