//! The cost of a fence in a transaction, compared with the same transaction without a fence, with one more statement,
//! and with `SELECT … FOR UPDATE`. Also the cost of a replay of a stored result, compared with a lock and one query.
//!
//! `cargo bench -p distlock-benches --bench fenced [-- --quick]`: a minute, or twenty seconds.
//!
//! The servers are on this machine, and PostgreSQL does not flush to the disk. So only messages and statements take
//! time. SQLite is a file in write-ahead mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, Pool};
use distlock::LockManager;
use distlock_benches::Result;
use distlock_benches::options::Length;
use distlock_benches::rounds::{Contender, Extent, Rounds};
use distlock_benches::server::Server;
use distlock_benches::stats::micros;
use distlock_benches::table::{Table, Verdicts};
use distlock_fence::{Fence, FenceError, Once, once, transaction};
use distlock_fixtures::PostgresServer;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tokio_postgres::NoTls;

/// The number of different keys, and of accounts.
const KEYS: usize = 100;
/// How long results are kept.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const TABLES: &str = "
    CREATE TABLE account (id BIGINT PRIMARY KEY, points BIGINT NOT NULL);
    CREATE TABLE other (name VARCHAR(100) PRIMARY KEY, token BIGINT NOT NULL);
    CREATE TABLE result (name VARCHAR(100) PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO result VALUES ('k', '7')";
const TAKE: &str = "UPDATE account SET points = points - 1 WHERE id = $1";
const LOOK: &str = "SELECT points FROM account WHERE id = $1 FOR UPDATE";
/// A statement like that of the fence.
const MORE: &str = "INSERT INTO other (name, token) VALUES ($1, $2)
                    ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE other.token <= excluded.token
                    RETURNING token";

#[derive(Debug)]
struct Failed(Box<dyn std::error::Error + Send + Sync>);

impl From<FenceError> for Failed {
    fn from(error: FenceError) -> Self {
        Failed(error.into())
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Failed(error.into())
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Failed(error.into())
    }
}

/// The account, the key and the token of a section. Each token is larger than the previous ones.
fn place(at: usize) -> (i64, String, i64) {
    static TOKEN: AtomicI64 = AtomicI64::new(1);
    let number = i64::try_from(at % KEYS).unwrap_or(0);
    (number, format!("points:{number}"), TOKEN.fetch_add(1, Ordering::Relaxed))
}

/// The same transaction in four variants, or in three if the database cannot lock rows.
macro_rules! transactions {
    ($pool:expr $(, $look:expr)?) => {{
        let pool = $pool;
        let plain = pool.clone();
        let alone = Contender::new("transaction", move |at| {
            let (pool, (account, ..)) = (plain.clone(), place(at));
            async move {
                let mut tx = pool.begin().await?;
                sqlx::query(TAKE).bind(account).execute(&mut *tx).await?;
                Ok(tx.commit().await?)
            }
        });
        let plain = pool.clone();
        let more = Contender::new("and one statement more", move |at| {
            let (pool, (account, key, token)) = (plain.clone(), place(at));
            async move {
                let mut tx = pool.begin().await?;
                sqlx::query(MORE).bind(key).bind(token).fetch_optional(&mut *tx).await?;
                sqlx::query(TAKE).bind(account).execute(&mut *tx).await?;
                Ok(tx.commit().await?)
            }
        });
        let fenced = Contender::new("and a fence", {
            let pool = pool.clone();
            move |at| {
                let (pool, (account, key, token)) = (pool.clone(), place(at));
                async move {
                    let fence = Fence::new(&key, token.unsigned_abs());
                    let done = transaction(&fence, &pool, async |tx| {
                        Ok::<_, Failed>(sqlx::query(TAKE).bind(account).execute(&mut *tx).await.map(drop)?)
                    });
                    done.await.map_err(|Failed(error)| error)
                }
            }
        });
        vec![
            alone,
            more,
            fenced,
            $(Contender::new("and SELECT … FOR UPDATE", {
                let pool = pool.clone();
                move |at| {
                    let (pool, (account, ..)) = (pool.clone(), place(at));
                    async move {
                        let mut tx = pool.begin().await?;
                        sqlx::query($look).bind(account).fetch_optional(&mut *tx).await?;
                        sqlx::query(TAKE).bind(account).execute(&mut *tx).await?;
                        Ok(tx.commit().await?)
                    }
                }
            }),)?
        ]
    }};
}

/// The variants with `deadpool-postgres`: a transaction, one more statement, and a fence.
fn through_deadpool(pool: &Pool) -> Vec<Contender> {
    let mine = pool.clone();
    let alone = Contender::new("transaction", move |at| {
        let (pool, (account, ..)) = (mine.clone(), place(at));
        async move {
            let mut client = pool.get().await?;
            let tx = client.transaction().await?;
            tx.execute(&tx.prepare_cached(TAKE).await?, &[&account]).await?;
            Ok(tx.commit().await?)
        }
    });
    let mine = pool.clone();
    let more = Contender::new("and one statement more", move |at| {
        let (pool, (account, key, token)) = (mine.clone(), place(at));
        async move {
            let mut client = pool.get().await?;
            let tx = client.transaction().await?;
            tx.query_opt(&tx.prepare_cached(MORE).await?, &[&key, &token]).await?;
            tx.execute(&tx.prepare_cached(TAKE).await?, &[&account]).await?;
            Ok(tx.commit().await?)
        }
    });
    let pool = pool.clone();
    let fenced = Contender::new("and a fence", move |at| {
        let (pool, (account, key, token)) = (pool.clone(), place(at));
        async move {
            let fence = Fence::new(&key, token.unsigned_abs());
            let done = transaction(&fence, &pool, async |tx| {
                tx.execute(&tx.prepare_cached(TAKE).await?, &[&account]).await?;
                Ok::<_, Failed>(())
            });
            done.await.map_err(|Failed(error)| error)
        }
    });
    vec![alone, more, fenced]
}

/// A lock on Redis and one query, and a result that is stored.
fn replays(pool: &sqlx::PgPool, locks: &LockManager) -> Vec<Contender> {
    let (its_pool, its_locks) = (pool.clone(), locks.clone());
    let query = Contender::new("lock and one query", move |_| {
        let (pool, locks) = (its_pool.clone(), its_locks.clone());
        async move {
            let guard = locks.lock("redeem:1").fenced().acquire().await?;
            sqlx::query("SELECT value FROM result WHERE name = $1").bind("k").fetch_one(&pool).await?;
            Ok(guard.release().await?)
        }
    });
    let (pool, locks, request) = (pool.clone(), locks.clone(), Arc::new(Once::new(DAY)));
    let replay = Contender::new("lock and replay", move |_| {
        let (pool, locks, request) = (pool.clone(), locks.clone(), Arc::clone(&request));
        async move {
            let guard = locks.lock("redeem:1").fenced().acquire().await?;
            let fence = guard.fence()?;
            let done = once(&fence, &pool, &request, async |_| Ok::<_, Failed>(7_u64));
            done.await.map_err(|Failed(error)| error)?;
            Ok(guard.release().await?)
        }
    });
    vec![query, replay]
}

/// Prints the contenders of one run. The others are compared with the first one.
fn show(title: &str, rounds: &Rounds) {
    let mut table = Table::new(&["", "p50", "÷ the first"]);
    for (at, name) in rounds.names().iter().enumerate() {
        table.row([name.clone(), micros(rounds.p50(at)), format!("{:.2}", rounds.ratio(at, 0))]);
    }
    table.print(title);
}

async fn measure(length: Length, locks: &Server, verdicts: &mut Verdicts) -> Result<()> {
    let extent = Extent { rounds: length.pick(15, 5), turns: length.pick(40, 20) };
    let server = PostgresServer::start();
    let one = || PgPoolOptions::new().max_connections(1).connect_lazy(&server.url());
    let pool = one()?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    distlock_fence::migrate(&pool).await?;
    for account in 0..KEYS {
        sqlx::query("INSERT INTO account VALUES ($1, 0)").bind(place(account).0).execute(&pool).await?;
    }
    let rounds = Rounds::run(extent, async || Ok(transactions!(one()?, LOOK))).await?;
    show("PostgreSQL, through sqlx", &rounds);
    verdicts.at_most("PostgreSQL, sqlx: with a fence ÷ with one statement more", rounds.ratio(2, 1), 1.15);

    let rounds = Rounds::run(extent, async || {
        let manager = Manager::new(server.url().parse()?, NoTls);
        Ok(through_deadpool(&Pool::builder(manager).max_size(1).build()?))
    });
    let rounds = rounds.await?;
    show("PostgreSQL, through deadpool-postgres", &rounds);
    verdicts.at_most(
        "PostgreSQL, deadpool: with a fence ÷ with one statement more",
        rounds.ratio(2, 1),
        1.15,
    );

    let folder = tempfile::tempdir()?;
    let file = SqliteConnectOptions::new()
        .filename(folder.path().join("data.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal);
    let file = SqlitePoolOptions::new().max_connections(1).connect_with(file).await?;
    sqlx::raw_sql(TABLES).execute(&file).await?;
    distlock_fence::migrate(&file).await?;
    for account in 0..KEYS {
        sqlx::query("INSERT INTO account VALUES ($1, 0)").bind(place(account).0).execute(&file).await?;
    }
    let rounds = Rounds::run(extent, async || Ok(transactions!(file.clone()))).await?;
    show("SQLite, through sqlx", &rounds);
    verdicts.at_most("SQLite: with a fence ÷ with one statement more", rounds.ratio(2, 1), 1.15);

    let rounds = Rounds::run(extent, async || {
        let manager = LockManager::connect(&locks.url()).await?;
        Ok(replays(&one()?, &manager))
    });
    let rounds = rounds.await?;
    show("A stored result, locks on Redis", &rounds);
    verdicts.at_most("lock and replay ÷ lock and one query", rounds.ratio(1, 0), 1.05);
    Ok(())
}

fn main() -> Result<()> {
    let length = Length::from_args();
    let locks = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut verdicts = Verdicts::default();
    runtime.block_on(measure(length, &locks, &mut verdicts))?;
    let quick = length.pick("", " -- --quick");
    verdicts.print(&locks.machine()?, &format!("cargo bench -p distlock-benches --bench fenced{quick}"));
    Ok(())
}
