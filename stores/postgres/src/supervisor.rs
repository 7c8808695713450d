//! Creates the connections, watches them, and replaces them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::dial::{Connection, dial};
use super::errors::{self, Phase};
use super::link::{Pool, clock};
use super::listener::{Listener, Notifications};
use super::prepared::Prepared;
use super::schema::Functions;
use super::url::Listening;
use distlock_store::kit::backoff::Backoff;
use distlock_store::{EarlierCommands, StoreError, StoreEvents};

/// The pause between the first two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How often the server's clock is read, and idle connections are checked.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// About how often each process searches the table for rows of unused keys.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3_600);
/// Behind a pooler, the session belongs to other programs, too, so it is not changed there.
/// - lock_timeout is for the statements that do not call settle_1: all commands of a connection wait behind one that
///   waits for a row or a table.
/// - A session keeps its plans until the table is analyzed again. A plan that reads all rows, because there were few,
///   makes each new key slower than the one before: 10 000 took 121 s, and 3 s with the index.
/// - A plan that reads all rows nevertheless counts as so expensive that it would be compiled.
const SESSION: &str = "SET lock_timeout = '500ms'; SET enable_seqscan = off; SET jit = off";
/// A connection that lasted this long counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(5);

impl PostgresStore {
    /// Connects, and reconnects whenever a connection has ended. Never returns.
    pub(super) async fn stay_connected(&self, events: &StoreEvents) {
        let mut backoff = Backoff::beginning_with(FIRST_PAUSE);
        let mut earlier = EarlierCommands::Ended;
        loop {
            let cause = match self.connect().await {
                Ok((pool, listener)) => {
                    let up = Up::new(self, pool);
                    events.up(std::mem::replace(&mut earlier, EarlierCommands::MayArrive));
                    let since = Instant::now();
                    let cause = self.watch(&up.pool, listener, events).await;
                    if since.elapsed() > STABLE_AFTER {
                        backoff = Backoff::beginning_with(FIRST_PAUSE);
                    }
                    cause
                }
                Err(error) => error,
            };
            events.down(errors::at(&self.config.describe(), &cause));
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    /// Opens all connections to a server that has the tables and functions. They are replaced together.
    async fn connect(&self) -> Result<(Pool, Option<Listener>), StoreError> {
        let config = &self.config;
        let mut dialled = vec![self.dial_for_commands().await?];
        let first = &dialled[0].0;
        let prepare = async {
            check(first).await?;
            let functions = config.schema.ensure(&first.client).await?;
            let durability = match functions {
                Functions::Current => config.durability.clone(),
                Functions::Outdated => at_least_local(first, &config.durability).await?,
            };
            Ok(((functions, durability), clock(first).await?))
        };
        let limit = config.connect_timeout;
        let no_answer = |_| Err(StoreError::not_sent(format!("no answer within {limit:?}")));
        let (functions, clock) = tokio::time::timeout(limit, prepare).await.unwrap_or_else(no_answer)?;
        let listener = match &config.listening {
            Listening::Here => Some(Listener::open(config, &config.server, &first.client).await?),
            Listening::At(server) => Some(Listener::open(config, server, &first.client).await?),
            Listening::Off => None,
        };
        while dialled.len() < config.connections {
            dialled.push(self.dial_for_commands().await?);
        }
        let mut connections = Vec::new();
        for (connection, notifications) in dialled {
            let prepared = self.prepared(&connection, notifications, listener.as_ref()).await?;
            connections.push((connection, prepared));
        }
        let channel = listener.as_ref().map(|listener| listener.channel);
        Ok((Pool::new(connections, clock, config.response_timeout, channel, functions), listener))
    }

    async fn dial_for_commands(&self) -> Result<(Connection, Notifications), StoreError> {
        let (sender, notifications) = mpsc::unbounded_channel();
        Ok((dial(&self.config, &self.config.server, sender).await?, notifications))
    }

    /// Prepares the statements on a connection for commands, if the connection keeps its session. If notifications come
    /// from another URL, or are switched off, a pooler is likely. Then nothing is prepared, and the test for a pooler,
    /// which ends by a time-out, is left out.
    async fn prepared(
        &self,
        connection: &Connection,
        mut notifications: Notifications,
        listener: Option<&Listener>,
    ) -> Result<Prepared, StoreError> {
        let (Listening::Here, Some(listener)) = (&self.config.listening, listener) else {
            return Ok(Prepared::default());
        };
        let client = &connection.client;
        if !listener.finds_a_session(&self.config, client, &mut notifications).await? {
            return Ok(Prepared::default());
        }
        let limit = self.config.connect_timeout;
        let prepare = async {
            client.batch_execute(SESSION).await?;
            Prepared::by(client, &self.statements).await
        };
        match tokio::time::timeout(limit, prepare).await {
            Ok(Ok(prepared)) => Ok(prepared),
            // The commands will report the error.
            Ok(Err(error)) if error.as_db_error().is_some() => Ok(Prepared::default()),
            Ok(Err(error)) => Err(errors::of(&error, Phase::Connecting)),
            Err(_) => Err(StoreError::not_sent(format!("no answer within {limit:?}"))),
        }
    }

    /// Watches the connections until they must be replaced. Returns the reason.
    async fn watch(&self, pool: &Pool, listener: Option<Listener>, events: &StoreEvents) -> StoreError {
        let listener = listener.as_ref();
        let listen = async {
            match listener {
                Some(listener) => listener.listen(&self.grants, events).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            cause = pool.ended() => cause,
            cause = pool.broken() => cause,
            cause = listen => cause,
            cause = self.look(pool, listener) => cause,
        }
    }

    /// Regularly checks whether the connections are alive. Returns the error if they are not.
    async fn look(&self, pool: &Pool, listener: Option<&Listener>) -> StoreError {
        let response_timeout = self.config.response_timeout;
        let mut next_pruning = Instant::now();
        // The key after which the present pass continues.
        let mut behind: Option<Vec<u8>> = None;
        loop {
            if behind.is_none() {
                tokio::time::sleep(PROBE_INTERVAL).await;
            }
            if next_pruning <= Instant::now() {
                // A failure does no harm: another process, or this one at the next time, removes the rows.
                behind = self.prune(&behind.unwrap_or_default()).await.unwrap_or_default();
                if behind.is_none() {
                    next_pruning = Instant::now() + PRUNE_INTERVAL.mul_f64(0.5 + fastrand::f64());
                }
            }
            let read = pool.read_clock(tokio::time::Instant::now() + response_timeout).await;
            let checked = match (read, listener) {
                (Ok(()), Some(listener)) => listener.check(response_timeout).await,
                (read, _) => read,
            };
            if let Err(error) = checked {
                return error;
            }
        }
    }
}

/// Commands can be sent while this lives.
struct Up<'a> {
    store: &'a PostgresStore,
    pool: Arc<Pool>,
}

impl<'a> Up<'a> {
    fn new(store: &'a PostgresStore, pool: Pool) -> Self {
        let pool = Arc::new(pool);
        store.link.set(Some(pool.clone()));
        Up { store, pool }
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        self.store.link.set(None);
        // All waiters ask again, and name another channel.
        self.store.grants.clear();
    }
}

/// The durability of commands with outdated functions, which do not commit the tokens that they issue more durably than
/// other changes.
async fn at_least_local(
    connection: &Connection,
    configured: &Option<String>,
) -> Result<Option<String>, StoreError> {
    let sql =
        "SELECT CASE coalesce($1, current_setting('synchronous_commit')) WHEN 'off' THEN 'local' ELSE $1 END";
    let row = connection.client.query_typed_one(sql, &[(configured, Type::TEXT)]).await;
    row.and_then(|row| row.try_get(0)).map_err(|error| errors::of(&error, Phase::Connecting))
}

const OLDEST: i32 = 130_000;

/// Checks whether this server can be used.
async fn check(connection: &Connection) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(), \
               current_setting('transaction_isolation'), current_setting('transaction_read_only')::boolean";
    let row = connection.client.query_typed_one(sql, &[]).await;
    let said = row.and_then(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)));
    let (version, is_standby, isolation, is_read_only): (i32, bool, String, bool) =
        said.map_err(|error| errors::of(&error, Phase::Connecting))?;
    if version < OLDEST {
        let major = version / 10_000;
        return Err(StoreError::refused(format!("PostgreSQL {major} is too old: 13 or later is needed")));
    }
    if is_standby {
        return Err(StoreError::later(
            "the server is a standby, which does not accept writes: name all servers in the URL (host1,host2) \
             with `target_session_attrs=read-write`",
        ));
    }
    if isolation != "read committed" {
        return Err(StoreError::refused(format!(
            "transactions of this role are `{isolation}` by default; locks need `read committed`: add \
             `options=-c%20default_transaction_isolation%3Dread%5C%20committed` to the URL, or ALTER ROLE … SET \
             default_transaction_isolation = 'read committed'"
        )));
    }
    if is_read_only {
        return Err(StoreError::refused(
            "transactions of this role are read-only by default; locks are written: add \
             `options=-c%20default_transaction_read_only%3Doff` to the URL, or ALTER ROLE … SET \
             default_transaction_read_only = off. If that is the setting of the whole server, its disk may be \
             full",
        ));
    }
    Ok(())
}
