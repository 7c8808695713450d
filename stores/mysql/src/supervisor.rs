//! Creates the connections, watches them, and replaces them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::time::timeout;

use super::MysqlStore;
use super::errors::{self, Phase, STANDBY};
use super::link::{Pool, clock};
use super::pruning::Pruning;
use distlock_store::kit::backoff::Backoff;
use distlock_store::{EarlierCommands, StoreError, StoreEvents};

/// The pause between the first two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How often the server's clock is read, and idle connections are checked.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// A connection that lasted this long counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(5);
/// Connections that were unused for this long are closed, except one.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// The pause before the next attempt after the server has refused a connection.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(1);

impl MysqlStore {
    /// Connects, and reconnects whenever a connection has ended. Never returns.
    pub(super) async fn stay_connected(&self, events: &StoreEvents) {
        let mut backoff = Backoff::beginning_with(FIRST_PAUSE);
        let mut earlier = EarlierCommands::Ended;
        let mut pruning = Pruning::default();
        loop {
            let cause = match self.connect().await {
                Ok((server, conn, clock)) => {
                    let up = Up::new(self, Pool::new(conn, clock, self.config.response_timeout));
                    events.up(std::mem::replace(&mut earlier, EarlierCommands::MayArrive));
                    let since = Instant::now();
                    let cause = self.watch(server, &up.pool, &mut pruning).await;
                    if since.elapsed() > STABLE_AFTER {
                        backoff = Backoff::beginning_with(FIRST_PAUSE);
                    }
                    cause
                }
                Err(error) => error,
            };
            events.down(cause);
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    /// Connects to the first server that can be used. Also returns the time of its clock.
    async fn connect(&self) -> Result<(&Opts, Conn, (Instant, i64)), StoreError> {
        let mut failed = None;
        for server in &self.config.servers {
            match self.connect_to(server).await {
                Ok((conn, clock)) => return Ok((server, conn, clock)),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| StoreError::refused("the URL names no server")))
    }

    async fn connect_to(&self, server: &Opts) -> Result<(Conn, (Instant, i64)), StoreError> {
        let limit = self.config.connect_timeout;
        let connecting = async {
            let mut conn = self.dial(server).await?;
            self.config.schema.ensure(&mut conn).await?;
            let clock = clock(&mut conn).await?;
            Ok((conn, clock))
        };
        let no_answer = |_| Err(StoreError::not_sent(format!("no connection within {limit:?}")));
        timeout(limit, connecting).await.unwrap_or_else(no_answer)
    }

    /// Opens one connection, to a server that accepts writes.
    async fn dial(&self, server: &Opts) -> Result<Conn, StoreError> {
        let opts = self.config.for_a_connection(server).await?;
        let failed = |error| errors::of(&error, Phase::Connecting);
        let mut conn = Conn::new(opts).await.map_err(failed)?;
        // Each statement is a separate transaction. It waits for a second for each table (`LOCK TABLES`, a backup,
        // DDL), and for a second for a row. Without the first limit, it would be executed hours later, because the time
        // that it compares with its deadline is that of its beginning. A transaction of several statements is open
        // between two requests only if it has failed and its process stopped before it could end the transaction.
        // MariaDB ends such a transaction (`idle_transaction_timeout`).
        let session = "SET SESSION autocommit = 1, lock_wait_timeout = 1, innodb_lock_wait_timeout = 1 \
                       /*M!100300 , idle_transaction_timeout = 5 */";
        conn.query_drop(session).await.map_err(failed)?;
        // Set explicitly, because the default of the user or the server may differ (`tx_read_only`).
        let transactions = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";
        conn.query_drop(transactions).await.map_err(failed)?;
        let sql = "SELECT VERSION(), CAST(@@GLOBAL.read_only AS CHAR)";
        let said: Option<(String, String)> = conn.query_first(sql).await.map_err(failed)?;
        let (version, is_read_only) = said.unwrap_or_default();
        if let Some(reason) = too_old(&version) {
            return Err(StoreError::refused(reason));
        }
        if !matches!(is_read_only.as_str(), "0" | "OFF") {
            return Err(StoreError::later(format!("the server has `read_only` set: {STANDBY}")));
        }
        Ok(conn)
    }

    /// Watches the connections until they must be replaced. Returns the reason.
    async fn watch(&self, server: &Opts, pool: &Pool, pruning: &mut Pruning) -> StoreError {
        tokio::select! {
            cause = pool.broken() => cause,
            () = self.grow(server, pool) => StoreError::unknown("the connections were closed"),
            cause = self.look_after(pool, pruning) => cause,
        }
    }

    /// Opens more connections while a caller waits for one, up to the maximum. Never ends.
    async fn grow(&self, server: &Opts, pool: &Pool) {
        loop {
            pool.crowded.notified().await;
            if pool.count() >= self.config.connections {
                continue;
            }
            match self.connect_to(server).await {
                Ok((conn, _)) => pool.add(conn),
                // The server accepts no more connections for now. The existing ones are still used.
                Err(_) => tokio::time::sleep(PAUSE_AFTER_REFUSAL).await,
            }
        }
    }

    /// Regularly checks whether unused connections are alive. Returns the error if one is not.
    async fn look_after(&self, pool: &Pool, pruning: &mut Pruning) -> StoreError {
        loop {
            tokio::time::sleep(PROBE_INTERVAL).await;
            let mut checked = 0;
            while checked < pool.count()
                && let Some((mut conn, since)) = pool.take_oldest()
            {
                if since.elapsed() > IDLE_LIMIT && pool.count() > 1 {
                    pool.is_one_less();
                    drop(timeout(self.config.response_timeout, conn.disconnect()).await);
                    continue;
                }
                match timeout(self.config.response_timeout, clock(&mut conn)).await {
                    Ok(Ok((_, clock))) => pool.learn(clock),
                    Ok(Err(error)) => return error,
                    Err(_) => return StoreError::unknown("the server has stopped answering"),
                }
                pool.give_back(conn, since);
                checked += 1;
            }
            self.prune(pool, pruning).await;
        }
    }
}

/// Commands can be sent while this lives.
struct Up<'a> {
    store: &'a MysqlStore,
    pool: Arc<Pool>,
}

impl<'a> Up<'a> {
    fn new(store: &'a MysqlStore, pool: Pool) -> Self {
        let pool = Arc::new(pool);
        store.link.set(Some(pool.clone()));
        Up { store, pool }
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        self.store.link.set(None);
        drop(self.pool.close());
    }
}

/// The error for a server of this version, if it is too old.
fn too_old(version: &str) -> Option<String> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    let found: (u32, u32) = (numbers.next()?, numbers.next().unwrap_or(0));
    let (name, needed) = if version.contains("MariaDB") { ("MariaDB", (10, 4)) } else { ("MySQL", (8, 0)) };
    (found < needed).then(|| {
        let ((major, minor), (at_least, point)) = (found, needed);
        format!("{name} {major}.{minor} is too old: {at_least}.{point} or later is needed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_from_new_ones() {
        for version in
            ["10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB", "10.4.0-MariaDB", "8.0.36", "9.1.0", ""]
        {
            assert_eq!(too_old(version), None, "{version}");
        }
        for (version, text) in [("10.3.39-MariaDB-log", "MariaDB 10.3"), ("5.7.44-log", "MySQL 5.7")] {
            assert!(too_old(version).is_some_and(|reason| reason.contains(text)), "{version}");
        }
    }
}
